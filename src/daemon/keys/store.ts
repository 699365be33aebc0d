import type { Db } from '../db/database.ts'
import type { Caller } from '../http/caller.ts'

/** A caller, and until when. `expiresAt` is ISO 8601, or null for never. */
export type KeyOwner = { caller: Caller; expiresAt: string | null }

/**
 * The live key with this SHA-256 (hex) and whom it speaks for; undefined when it is unknown or revoked, or its owner is
 * inactive. The one lookup without a tenant: the key is what tells the tenant.
 */
export async function findKeyOwner(db: Db, secretHash: string): Promise<KeyOwner | undefined> {
  const row = await db
    .selectFrom('api_keys as k')
    .innerJoin('users as u', (join) => join.onRef('u.id', '=', 'k.user_id').onRef('u.tenant_id', '=', 'k.tenant_id'))
    .innerJoin('tenants as t', 't.id', 'k.tenant_id')
    .select(['k.id', 'k.tenant_id', 'k.name', 'k.user_id', 'k.is_operator', 'k.expires_at'])
    .select(['u.role', 'u.name as user_name', 'u.email', 't.name as tenant_name'])
    .where('k.secret_hash', '=', secretHash)
    .where('k.revoked_at', 'is', null)
    .where('u.status', '=', 1)
    .executeTakeFirst()
  if (!row) return undefined
  return {
    caller: {
      tenantId: row.tenant_id,
      tenantName: row.tenant_name,
      keyId: row.id,
      keyName: row.name,
      userId: row.user_id,
      userName: row.user_name,
      userEmail: row.email,
      userRole: row.role,
      isAdmin: row.role === 'admin',
      isOperator: row.is_operator === 1,
    },
    expiresAt: row.expires_at,
  }
}
