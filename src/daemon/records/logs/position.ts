import { DAY_MS, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import { type EntryFilter, matchingAt } from '../evidence/entry-filter.ts'
import { listChainEntries } from '../evidence/entry-list.ts'
import { type ChainExtent, readExtents } from '../evidence/log-map.ts'

/**
 * A read position in the log of a tenant: the number of entries of each chain. Such a position is reliable, because
 * chains only grow at their end. A time would not be reliable, because a commit may take long and clocks differ.
 */
type Position = {
  atMs: number
  /**
   * The number of entries by chain. Chains without an entry in the last QUIET_MS are omitted, because there may be
   * many.
   */
  sizes: ReadonlyMap<string, number>
}

/** If an entry of an omitted chain is younger than this, it counts as new. */
const QUIET_MS = DAY_MS

/** The text that clients store and send back (wire/logs.ts: LOG_POSITION). */
const toText = ({ atMs, sizes }: Position): string =>
  [isoTime(atMs), ...[...sizes].map(([chain, size]) => `${chain}:${size}`)].join()

function parsePosition(text: string): Position {
  const [time = '', ...parts] = text.split(',')
  const sizes = parts.map((part): [string, number] => {
    const at = part.lastIndexOf(':')
    return [part.slice(0, at), Number(part.slice(at + 1))]
  })
  return { atMs: Date.parse(time), sizes: new Map(sizes) }
}

/** The position after the last entry of a tenant's log. */
export async function endOfLog(db: Db, tenantId: string, nowMs: number): Promise<string> {
  const chains = await readExtents(db, tenantId)
  const quiet = await findQuiet(db, tenantId, chains, nowMs)
  const sizes = new Map(chains.flatMap(({ chain, size }) => (quiet.has(chain) ? [] : [[chain, size]])))
  return toText({ atMs: nowMs, sizes })
}

/**
 * The first `limit` matching entries after a position, oldest first, and the next position. If the result has fewer
 * than `limit` entries, it reaches the end of the log.
 */
export async function entriesAfter(
  db: Db,
  { tenantId, filter, after, limit }: { tenantId: string; filter: EntryFilter; after: string; limit: number },
): Promise<{ rows: EvidenceEntryRow[]; position: string }> {
  const { atMs, sizes } = parsePosition(after)
  const read = new Map(sizes)
  const rows: EvidenceEntryRow[] = []
  const chains = await readExtents(db, tenantId)
  const unknown = chains.filter(({ chain }) => !sizes.has(chain))
  const quiet = await findQuiet(db, tenantId, unknown, atMs)
  for (const { chain, size } of chains) {
    const known = sizes.get(chain)
    if (quiet.has(chain) || known === size) continue
    const from = known ?? 0
    const since = known === undefined ? laterOf(filter.startDate, isoTime(atMs - QUIET_MS)) : filter.startDate
    const left = limit - rows.length
    const found = await listChainEntries(
      db,
      tenantId,
      { ...filter, startDate: since },
      { chain, from, size, limit: left },
    )
    rows.push(...found)
    const last = found.at(-1)
    if (last === undefined || found.length < left) {
      read.set(chain, size)
      continue
    }
    read.set(chain, last.seq + 1)
    break
  }
  rows.sort(byTime)
  return { rows, position: toText({ atMs, sizes: read }) }
}

/** The chains whose last entry is older than QUIET_MS. */
async function findQuiet(
  db: Db,
  tenantId: string,
  chains: readonly ChainExtent[],
  atMs: number,
): Promise<ReadonlySet<string>> {
  if (chains.length === 0) return new Set()
  const ends = chains.map(({ chain, size }, mark) => ({ chain, seq: size - 1, mark }))
  const recent = await matchingAt(db, tenantId, { startDate: isoTime(atMs - QUIET_MS) }, ends)
    .select('chain')
    .execute()
  const names = new Set(recent.map(({ chain }) => chain))
  return new Set(chains.flatMap(({ chain }) => (names.has(chain) ? [] : [chain])))
}

const laterOf = (one: string | undefined, other: string): string => (one !== undefined && one > other ? one : other)

const byTime = (one: EvidenceEntryRow, other: EvidenceEntryRow): number =>
  one.created_at < other.created_at ? -1 : one.created_at > other.created_at ? 1 : 0
