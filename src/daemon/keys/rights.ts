import { commonLevels, type Rights, withoutAdministration } from '../../shared/permissions.ts'
import type { StoredSettings } from './settings.ts'

/** What a key may do: what its owner may now, of which administration only as far as it was granted. */
export function rightsOfKey({ settings, grantedLevels }: StoredSettings, owner: Rights): Rights {
  if (!settings.adminAccess) return withoutAdministration(owner)
  return grantedLevels === null ? owner : { ...owner, levels: commonLevels(owner.levels, grantedLevels) }
}
