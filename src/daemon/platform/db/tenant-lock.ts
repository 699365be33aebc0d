import type { Db } from './db.ts'
import { engineOf } from './engine.ts'

/**
 * Locks this tenant until the transaction ends. The transaction can then check a condition over several of the tenant's
 * rows, such as "at least one administrator", and change them safely. Take this lock before any other row lock: with
 * one lock per tenant, changes cannot deadlock.
 */
export async function lockTenant(tx: Db, tenantId: string): Promise<void> {
  // On SQLite, only one write transaction runs at a time, so a lock is not needed.
  if (engineOf(tx).name === 'sqlite') return
  // `for update` would also wait for inserts of rows that refer to the tenant. `for no key update` does not.
  await tx.selectFrom('tenants').select('id').where('id', '=', tenantId).forNoKeyUpdate().execute()
}
