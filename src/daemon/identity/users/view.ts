import type { User } from '../../../shared/wire/users.ts'
import type { UserDetails, UserRow } from './store.ts'
import { toUsageByModel } from './usage-by-model.ts'

type CreatedUser = Omit<User, 'customRole' | 'updatedAt' | 'lastActive' | 'mfaEnabled'>

/** Converts a new user to the wire format. */
export const toCreatedUser = (row: UserRow): CreatedUser => ({
  id: row.id,
  name: row.name,
  username: row.username,
  email: row.email,
  role: row.role,
  license: row.license,
  usageByModel: toUsageByModel(row),
  status: row.status,
  isVerified: row.is_verified === 1,
  setupCompleted: row.setup_completed === 1,
  authType: row.auth_type,
  createdAt: row.created_at,
})

/** Converts a user to the wire format. */
export const toUser = (row: UserDetails): User => ({
  ...toCreatedUser(row),
  mfaEnabled: false,
  customRole:
    row.role_id === null
      ? null
      : { id: row.role_id, name: row.role_name ?? '', displayName: row.role_display_name ?? '' },
  updatedAt: row.updated_at,
  lastActive: row.last_active,
})
