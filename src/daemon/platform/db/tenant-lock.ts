import type { Db } from './db.ts'
import { engineOf } from './engine.ts'

/**
 * From here to the end of the transaction no other one holds the lock of this tenant, so what spans several of its rows,
 * such as "at least one administrator", can be looked at and then changed. To be taken before any other row: with one lock
 * for all of a tenant there is no order in which two changes could wait for each other.
 */
export async function lockTenant(tx: Db, tenantId: string): Promise<void> {
  // SQLite has one writer at a time, and this transaction is it.
  if (engineOf(tx).name === 'sqlite') return
  // Not `for update`: that would wait for whoever inserts a row that refers to the tenant, such as a bill.
  await tx.selectFrom('tenants').select('id').where('id', '=', tenantId).forNoKeyUpdate().execute()
}
