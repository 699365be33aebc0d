import { commonLevels, type Rights, withoutAdministration } from '../../../shared/permissions.ts'
import type { StoredSettings } from './settings.ts'

/**
 * Returns the rights of a key: its owner's current rights, with administration limited to the granted levels. The owner
 * can read some indexes; a setting of the key determines whether the key may write to these indexes.
 */
export function rightsOfKey({ settings, grantedLevels }: StoredSettings, owner: Rights): Rights {
  const rights = { ...owner, indexAccess: settings.indexAccess }
  if (!settings.adminAccess) return withoutAdministration(rights)
  return grantedLevels === null ? rights : { ...rights, levels: commonLevels(owner.levels, grantedLevels) }
}
