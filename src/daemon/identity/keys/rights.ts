import { commonLevels, type Rights, withoutAdministration } from '../../../shared/permissions.ts'
import type { StoredSettings } from './settings.ts'

/**
 * What a key may do: what its owner may now, of which administration only as far as it was granted. Writing to the indexes
 * that its owner reads is a right of the key.
 */
export function rightsOfKey({ settings, grantedLevels }: StoredSettings, owner: Rights): Rights {
  const rights = { ...owner, indexAccess: settings.indexAccess }
  if (!settings.adminAccess) return withoutAdministration(rights)
  return grantedLevels === null ? rights : { ...rights, levels: commonLevels(owner.levels, grantedLevels) }
}
