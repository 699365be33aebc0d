import type { ApiKey } from '../../../shared/wire/keys.ts'
import { readSettings } from './settings.ts'
import { type OwnedKey, statusOf } from './store.ts'

/**
 * Converts a key to the format of administrative responses, with its status at `now` (ISO 8601). The result contains no
 * part of the secret.
 */
export function toApiKey({ row, owner, lastUsedAt }: OwnedKey, now: string): ApiKey {
  return {
    id: row.id,
    name: row.name,
    userId: owner.id,
    user: owner,
    status: statusOf(row, now),
    isOperator: row.is_operator === 1,
    ...readSettings(row.settings).settings,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    lastUsedAt,
  }
}
