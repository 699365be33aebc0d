import { NO_RIGHTS, type Rights } from '../../../shared/permissions.ts'
import type { UsageByModel } from '../../../shared/wire/billing.ts'
import { DEFAULT_KEY_SETTINGS, type KeySettings } from '../../../shared/wire/keys.ts'
import type { License } from '../../../shared/wire/users.ts'

/** The authenticated caller: the key, the user who owns it, and their tenant. */
export type Caller = {
  tenantId: string
  tenantName: string
  keyId: string
  keyName: string
  /** ISO 8601; null means that the key never expires. */
  expiresAt: string | null
  /** SHA-256 of the presented key, hex. The key is looked up by this hash. */
  secretHash: string
  userId: string
  userName: string
  userEmail: string
  userRole: string
  userLicense: License
  /** Whether the owner may be billed in dollars, and the owner's monthly limit. */
  userUsageByModel: UsageByModel
  /** The key's rights, which never exceed its owner's rights. */
  rights: Rights
  /**
   * True if the caller is allowed to act for other users of the tenant: the key has the section `user-management` at
   * level `admin`.
   */
  isAdmin: boolean
  /** True for the operator key. Only the operator key may manage tenants, and the general limits do not apply to it. */
  isOperator: boolean
  /** Restrictions and limits of the key. */
  settings: KeySettings
}

/** The caller of a public route. */
export const NOBODY: Caller = Object.freeze({
  tenantId: '',
  tenantName: '',
  keyId: '',
  keyName: '',
  expiresAt: null,
  secretHash: '',
  userId: '',
  userName: '',
  userEmail: '',
  userRole: '',
  userLicense: 'Essential',
  userUsageByModel: { enabled: false, dollarLimit: null },
  rights: NO_RIGHTS,
  isAdmin: false,
  isOperator: false,
  settings: DEFAULT_KEY_SETTINGS,
})
