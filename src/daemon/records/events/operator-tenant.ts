import type { Db } from '../../platform/db/db.ts'

/** Returns the tenant of the operator key. Events that belong to no tenant are sent to it. */
export async function findOperatorTenant(db: Db): Promise<string | undefined> {
  const key = await db
    .selectFrom('api_keys')
    .select('tenant_id')
    .where('is_operator', '=', 1)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return key?.tenant_id
}
