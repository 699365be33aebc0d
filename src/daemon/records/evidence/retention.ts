import { CHANGES_CHAIN } from '../../../shared/evidence/entry.ts'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { payloadOf } from './entry-payload.ts'

/** The maximum number of payloads that are expunged in one statement. */
const EVIDENCE_EXPUNGE_ROWS = 500

/** Categories whose payloads are never expunged. */
const KEPT_CATEGORIES: ReadonlySet<string> = new Set(['authorization', 'security', 'pii', 'phi'])

/** Expunges the payloads of old request entries. The hashes of these entries are kept, so the chains remain valid. */
export type Retention = { run(): Promise<void> }

/** @param days the age in days at which payloads are expunged. 0 means never. */
export function createRetention({ db, clock, days }: { db: Db; clock: Clock; days: number }): Retention {
  /**
   * The last entry that was read, for each tenant. This position ensures that a daemon process reads each kept entry
   * only once.
   */
  const seen = new Map<string, { created_at: string; id: string }>()

  async function expungePart(tenantId: string, before: string): Promise<number> {
    const after = seen.get(tenantId) ?? { created_at: '', id: '' }
    const rows = await db
      .selectFrom('evidence_entries')
      .select(['id', 'created_at', 'chain', 'payload'])
      .where('tenant_id', '=', tenantId)
      .where('created_at', '<', before)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('created_at', 'id'), '>', tuple(after.created_at, after.id)))
      .orderBy('created_at')
      .orderBy('id')
      .limit(EVIDENCE_EXPUNGE_ROWS)
      .execute()
    const ids: string[] = []
    for (const { id, chain, payload } of rows) {
      // An unreadable payload is kept for investigation.
      const category = payloadOf({ payload })?.compliance_category
      if (chain !== CHANGES_CHAIN && category !== undefined && !KEPT_CATEGORIES.has(category)) ids.push(id)
    }
    if (ids.length > 0) await db.updateTable('evidence_entries').set({ payload: null }).where('id', 'in', ids).execute()
    const last = rows.at(-1)
    if (last !== undefined) seen.set(tenantId, { created_at: last.created_at, id: last.id })
    return rows.length
  }

  return {
    async run() {
      if (days === 0) return
      const before = isoTime(clock.now() - days * DAY_MS)
      for (const { id } of await db.selectFrom('tenants').select('id').execute()) {
        // Expunge the payloads in batches, so that other writers are not blocked for long.
        while ((await expungePart(id, before)) === EVIDENCE_EXPUNGE_ROWS);
      }
    },
  }
}
