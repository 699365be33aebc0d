import type { Db } from './db.ts'
import { engineOf } from './engine.ts'

/**
 * Locks this tenant until the transaction ends. So a condition on several of its rows, such as "at least one
 * administrator", can be checked and then changed. Take it before any other row lock: with one lock for each tenant,
 * changes cannot deadlock.
 */
export async function lockTenant(tx: Db, tenantId: string): Promise<void> {
  // SQLite has one writer at a time: this transaction.
  if (engineOf(tx).name === 'sqlite') return
  // Not `for update`: that would wait for inserts of rows that refer to the tenant, such as bills.
  await tx.selectFrom('tenants').select('id').where('id', '=', tenantId).forNoKeyUpdate().execute()
}
