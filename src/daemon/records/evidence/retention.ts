import { isChangesChain } from '../../../shared/evidence/entry.ts'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { payloadOf } from './entry-payload.ts'
import { BLOCK_ENTRIES } from './log-blocks.ts'
import { refreshBlocks } from './log-projector.ts'

/** The maximum number of payloads that are expunged in one statement. */
const EVIDENCE_EXPUNGE_ROWS = 500

/**
 * Expunges the payloads of old request entries, also of rejected requests. The hashes of these entries are kept, so the
 * chains remain valid. The payloads of changes are never expunged.
 */
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
      .select(['id', 'created_at', 'chain', 'seq', 'payload'])
      .where('tenant_id', '=', tenantId)
      .where('created_at', '<', before)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('created_at', 'id'), '>', tuple(after.created_at, after.id)))
      .orderBy('created_at')
      .orderBy('id')
      .limit(EVIDENCE_EXPUNGE_ROWS)
      .execute()
    // An unreadable payload is kept for investigation.
    const old = rows.filter((row) => !isChangesChain(row.chain) && payloadOf(row) !== undefined)
    if (old.length > 0) {
      await db.transaction().execute(async (tx) => {
        const ids = old.map(({ id }) => id)
        await tx.updateTable('evidence_entries').set({ payload: null }).where('id', 'in', ids).execute()
        for (const [chain, blocks] of blocksOf(old)) await refreshBlocks(tx, { tenantId, chain }, blocks)
      })
    }
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

/** The blocks of level 1 of these entries, by chain. */
function blocksOf(entries: readonly { chain: string; seq: number }[]): Map<string, Set<number>> {
  const byChain = new Map<string, Set<number>>()
  for (const { chain, seq } of entries) {
    const blocks = byChain.get(chain) ?? new Set()
    byChain.set(chain, blocks.add(Math.floor(seq / BLOCK_ENTRIES)))
  }
  return byChain
}
