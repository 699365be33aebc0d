import type { Db } from '../db/database.ts'

/** The active user with this id in this tenant. */
export function findUser(db: Db, tenantId: string, id: string): Promise<{ id: string; name: string } | undefined> {
  return db
    .selectFrom('users')
    .select(['id', 'name'])
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .where('status', '=', 1)
    .executeTakeFirst()
}
