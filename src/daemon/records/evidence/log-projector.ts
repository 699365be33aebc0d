// Follows the chains and keeps their summaries up to date: the blocks of the log, and usage by day.
import { LRUCache } from 'lru-cache'
import type { Clock, Timer } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import { insertEach } from '../../platform/db/insert-together.ts'
import type { EvidenceEntryRow, LogBlockRow, UsageDayRow } from '../../platform/db/tables.ts'
import { createPacer } from '../../platform/pacing.ts'
import type { EntryDraft } from '../ledger/records.ts'
import { createTagBound } from '../usage/tag-bound.ts'
import { sumUsage, toUsageInsert, usageOf } from '../usage/usage-days.ts'
import { payloadOf } from './entry-payload.ts'
import {
  BLOCK_ENTRIES,
  BLOCKS_PER_PARENT,
  blockOf,
  entriesIn,
  fromBlockRow,
  mergeOwners,
  ownersOf,
  parentOf,
  parseOwners,
  type SummarisedEntry,
  TOP_LEVEL,
  toBlockRow,
  toStoredOwned,
  toStoredOwners,
  toSummary,
} from './log-blocks.ts'
import { measureChains } from './store.ts'

/** Delay from the first new entry until it is summarised, so that one transaction summarises many entries. */
const PROJECTION_DELAY_MS = 1_000
/** Number of entries of one chain per transaction. A transaction with this many entries takes no further chain. */
const ENTRIES_PER_STEP = 1_024
/** Maximum number of chains per transaction. Many tenants with few requests therefore share one commit. */
const CHAINS_PER_STEP = 64
/** Maximum number of new entries in memory, of all chains. */
const FRESH_ENTRIES = 4_096
/** Number of chains whose incomplete last block a daemon caches. The last blocks of other chains are read again. */
const OPEN_BLOCKS = 1_000

/**
 * Summarises each entry exactly once. The position in the chain is stored in the same transaction as the summaries.
 * A crash therefore loses no entry, and several daemons may follow the same chain.
 */
export type LogProjector = {
  /** Summarises all entries of all chains that are not yet summarised. */
  run(): Promise<void>
  /** Queues these stored entries of a chain, to be summarised soon. The facts of their drafts are kept until then. */
  follow(tenantId: string, chain: string, entries: readonly StoredEntry[], drafts: readonly EntryFacts[]): void
  /** Stops after the current step. A later daemon continues from the stored position. */
  close(): Promise<void>
}

export type ProjectorDeps = { db: Db; clock: Clock; log: { error(details: object, message: string): void } }

/** The columns of an entry that are summarised. */
type StoredEntry = Pick<EvidenceEntryRow, 'seq' | 'id' | 'created_at' | 'payload'>
type EntryFacts = Pick<EntryDraft, 'facts'>
/** An entry to summarise. Its payload is parsed only if the facts are missing. */
type NewEntry = StoredEntry & EntryFacts

type Chain = { tenantId: string; chain: string }
/** The position that this daemon stored last, and the summaries of the entries after the last complete block. */
type Known = { size: number; open: readonly SummarisedEntry[] }

/** The summaries of the next entries of a chain, from position `from` to `to`. */
type Step = {
  of: Chain
  from: number
  to: number
  /** Number of entries that were read. */
  entries: number
  blocks: readonly LogBlockRow[]
  usage: readonly UsageDayRow[]
  /** The summaries of the entries after the last complete block. */
  open: readonly SummarisedEntry[]
  /** Whether more entries may follow. */
  mayGoOn: boolean
}

export function createLogProjector({ db, clock, log }: ProjectorDeps): LogProjector {
  /** `woken`: chains with new entries, until the delay has passed. `grown`: chains that are ready for a step. */
  const woken = new Map<string, Chain>()
  const grown = new Map<string, Chain>()
  const known = new LRUCache<string, Known>({ max: OPEN_BLOCKS })
  const tags = createTagBound()
  /** New entries by chain, without gaps. All other entries are read from the store. */
  const fresh = new Map<string, NewEntry[]>()
  let freshEntries = 0
  /** Sizes of chains with new entries. These entries may be missing in `fresh`. */
  const sizes = new Map<string, number>()
  let timer: Timer | undefined
  let working: Promise<void> | undefined
  let isClosed = false

  const nameOf = ({ tenantId, chain }: Chain) => `${tenantId} ${chain}`

  function work(): Promise<void> {
    working ??= followAll().finally(() => {
      working = undefined
    })
    return working
  }

  /**
   * Takes one step in each chain in turn, so that a long backlog of one chain does not delay the others. A chain that
   * fails does not stop the others. @throws the first failure, at the end
   */
  async function followAll(): Promise<void> {
    const pacer = createPacer()
    const failures: unknown[] = []
    const attempt = <T>(work: Promise<T>): Promise<T | undefined> =>
      work.catch((error: unknown) => {
        failures.push(error)
        return undefined
      })
    while (grown.size > 0 && !isClosed) {
      const steps: Step[] = []
      let entries = 0
      for (const [name, chain] of [...grown]) {
        if (entries >= ENTRIES_PER_STEP || steps.length === CHAINS_PER_STEP) break
        grown.delete(name)
        const step = await attempt(prepare(chain, pacer))
        if (step === undefined) continue
        steps.push(step)
        entries += step.entries
      }
      if (steps.length === 1) await attempt(store(steps))
      // One transaction for all of them. If it fails, each of them gets its own.
      else if (steps.length > 1)
        await store(steps).catch(async () => {
          for (const step of steps) await attempt(store([step]))
        })
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Summarises the next entries of a chain in memory. Undefined if there are no more entries. */
  async function prepare(of: Chain, pacer: ReturnType<typeof createPacer>): Promise<Step | undefined> {
    const name = nameOf(of)
    const cached = known.get(name)
    const from = cached?.size ?? (await findPosition(db, of))
    const summaries: SummarisedEntry[] = [...(cached?.open ?? [])]
    const kept = fresh.get(name)
    fresh.delete(name)
    freshEntries -= kept?.length ?? 0
    const readFrom = cached ? from : from - (from % BLOCK_ENTRIES)
    // Some of these entries may already be summarised: an earlier step may have read them from the store.
    const firstKept = kept?.[0]?.seq ?? Number.POSITIVE_INFINITY
    const next = cached !== undefined && firstKept <= from ? kept?.slice(from - firstKept) : undefined
    const isKept = next !== undefined && next.length > 0
    const rows: readonly NewEntry[] = isKept
      ? next
      : await readEntries(db, of, { from: readFrom, limit: ENTRIES_PER_STEP })
    pacer.resume()
    const usage: UsageDayRow[] = []
    for (const row of rows) {
      const turn = pacer.turn()
      if (turn) await turn
      const payload = row.facts ?? payloadOf(row)
      summaries.push(toSummary(row, payload))
      const used = row.seq < from ? undefined : usageOf(of.tenantId, payload)
      if (used) usage.push(used)
    }
    const to = (rows.at(-1)?.seq ?? -1) + 1
    if (to <= from) return undefined
    const openFrom = to - (to % BLOCK_ENTRIES)
    return {
      ...{ of, from, to, usage, entries: rows.length },
      blocks: completeBlocks(of, summaries, to),
      open: summaries.filter(({ seq }) => seq >= openFrom),
      mayGoOn: isKept ? to < (sizes.get(name) ?? 0) : rows.length === ENTRIES_PER_STEP,
    }
  }

  /** Stores steps of several chains in one transaction. */
  async function store(steps: readonly Step[]): Promise<void> {
    // Daemons lock the positions in the same order, so they cannot deadlock.
    const inOrder = [...steps].sort((one, other) => (nameOf(one.of) < nameOf(other.of) ? -1 : 1))
    const moved = await db.transaction().execute(async (tx) => {
      const own = new Set<Step>()
      for (const step of inOrder) {
        if (!(await movePosition(tx, step.of, step.from, step.to))) continue
        own.add(step)
        await insertRows(tx, 'log_blocks', step.blocks, { onConflict: BLOCK_KEY })
        await insertParents(tx, step.of, step.from, step.to)
      }
      const sums = await tags.bound(tx, sumUsage([...own].flatMap(({ usage }) => usage)))
      if (sums.length > 0) await insertEach(tx, [toUsageInsert(sums)])
      return own
    })
    for (const step of steps) {
      const name = nameOf(step.of)
      // If another daemon has followed this chain in the meantime, its position is read again.
      if (moved.has(step)) known.set(name, { size: step.to, open: step.open })
      else known.delete(name)
      if (step.mayGoOn || !moved.has(step)) grown.set(name, step.of)
      if ((sizes.get(name) ?? 0) <= step.to) sizes.delete(name)
    }
  }

  const failed = (error: unknown) => log.error({ error }, 'the log could not be summarised; it is retried')

  return {
    async run() {
      const positions = new Map(
        (await db.selectFrom('log_positions').selectAll().execute()).map(({ tenant_id, chain, size }) => [
          nameOf({ tenantId: tenant_id, chain }),
          size,
        ]),
      )
      for (const { tenant_id, chain, size } of await measureChains(db)) {
        const of = { tenantId: tenant_id, chain }
        if (size > (positions.get(nameOf(of)) ?? 0)) grown.set(nameOf(of), of)
      }
      await work()
    },
    follow(tenantId, chain, entries, drafts) {
      if (isClosed) return
      const name = nameOf({ tenantId, chain })
      woken.set(name, { tenantId, chain })
      const kept = fresh.get(name) ?? []
      const last = kept.at(-1)
      sizes.set(name, (entries.at(-1)?.seq ?? -1) + 1)
      if (freshEntries < FRESH_ENTRIES && (last === undefined || last.seq + 1 === entries[0]?.seq)) {
        fresh.set(name, kept)
        for (const [at, { seq, id, created_at, payload }] of entries.entries()) {
          const facts = drafts[at]?.facts
          kept.push(facts ? { seq, id, created_at, payload: null, facts } : { seq, id, created_at, payload })
        }
        freshEntries += entries.length
      }
      timer ??= clock.after(PROJECTION_DELAY_MS, () => {
        timer = undefined
        for (const [name, of] of woken) grown.set(name, of)
        woken.clear()
        // A failed step is retried by `run`, or after the next entry of its chain.
        work().catch(failed)
      })
    },
    async close() {
      isClosed = true
      timer?.cancel()
      await working?.catch(() => {})
    },
  }
}

const BLOCK_KEY = { replace: ['tenant_id', 'chain', 'level', 'block'] } as const
const OWNER_KEY = { replace: ['tenant_id', 'user_id', 'api_key_id', 'chain', 'block'] } as const

const readEntries = (
  db: Db,
  { tenantId, chain }: Chain,
  { from, limit }: { from: number; limit: number },
): Promise<StoredEntry[]> =>
  db
    .selectFrom('evidence_entries')
    .select(['seq', 'id', 'created_at', 'payload'])
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('seq', '>=', from)
    .orderBy('seq')
    .limit(limit)
    .execute()

async function findPosition(db: Db, { tenantId, chain }: Chain): Promise<number> {
  const found = await db
    .selectFrom('log_positions')
    .select('size')
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .executeTakeFirst()
  return found?.size ?? 0
}

/** Moves the position of a chain. Returns false if it is no longer at `from`. Locks it until the transaction ends. */
async function movePosition(tx: Db, { tenantId, chain }: Chain, from: number, to: number): Promise<boolean> {
  if (from === 0) {
    const row = { tenant_id: tenantId, chain, size: to }
    return (await insertRows(tx, 'log_positions', [row], { onConflict: 'ignore' })) === 1
  }
  const { numUpdatedRows } = await tx
    .updateTable('log_positions')
    .set({ size: to })
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('size', '=', from)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** The rows of the blocks of level 1 that end at or before `end`. */
function completeBlocks({ tenantId, chain }: Chain, summaries: readonly SummarisedEntry[], end: number): LogBlockRow[] {
  const byBlock = new Map<number, SummarisedEntry[]>()
  for (const summary of summaries) {
    const block = Math.floor(summary.seq / BLOCK_ENTRIES)
    const entries = byBlock.get(block)
    if (entries) entries.push(summary)
    else byBlock.set(block, [summary])
  }
  return [...byBlock]
    .filter(([block]) => (block + 1) * BLOCK_ENTRIES <= end)
    .map(([, entries]) => toFirstLevelRow(tenantId, chain, entries))
}

/** The row of the block of level 1 over these entries. */
const toFirstLevelRow = (tenantId: string, chain: string, entries: readonly SummarisedEntry[]): LogBlockRow =>
  toBlockRow({ tenant_id: tenantId, chain, level: 1 }, blockOf(entries), toStoredOwners(ownersOf(entries)))

/** Inserts the blocks above level 1 that became complete between two positions. */
async function insertParents(tx: Db, of: Chain, from: number, to: number): Promise<void> {
  for (let level = 2; level <= TOP_LEVEL; level++) {
    const [first, last] = [from, to].map((size) => Math.floor(size / entriesIn(level))) as [number, number]
    for (let block = first; block < last; block++) await saveParent(tx, of, level, block)
  }
}

/** Builds a block above level 1 from the stored blocks of the next lower level. */
async function saveParent(tx: Db, { tenantId, chain }: Chain, level: number, block: number): Promise<void> {
  const rows = await childrenOf(tx, { tenantId, chain }, level, block)
  if (rows.length === 0) return
  const parent = toBlockRow({ tenant_id: tenantId, chain, level }, parentOf(rows.map(fromBlockRow)))
  await insertRows(tx, 'log_blocks', [parent], { onConflict: BLOCK_KEY })
  if (level > 2) return
  const owners = mergeOwners(rows.map((row) => ({ block: row.block, owners: parseOwners(row.owners) })))
  const { first_at, last_at } = parent
  await insertRows(
    tx,
    'log_owners',
    owners.map(({ userId, keyId, groups }) => ({
      ...{ tenant_id: tenantId, user_id: userId, api_key_id: keyId, chain, block, first_at, last_at },
      groups: JSON.stringify(toStoredOwned(groups)),
    })),
    { onConflict: OWNER_KEY },
  )
}

/** The stored blocks of the next lower level in a block. */
const childrenOf = (tx: Db, { tenantId, chain }: Chain, level: number, block: number) =>
  tx
    .selectFrom('log_blocks')
    .select(['block', 'first_at', 'last_at', 'groups', 'owners'])
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('level', '=', level - 1)
    .where('block', '>=', block * BLOCKS_PER_PARENT)
    .where('block', '<', (block + 1) * BLOCKS_PER_PARENT)
    .orderBy('block')
    .execute()

/** Deletes the owners of a block of level 2. These are the owners of its level-1 blocks. */
async function deleteOwners(tx: Db, { tenantId, chain }: Chain, block: number): Promise<void> {
  const children = await childrenOf(tx, { tenantId, chain }, 2, block)
  const owners = mergeOwners(children.map((child) => ({ block: child.block, owners: parseOwners(child.owners) })))
  if (owners.length === 0) return
  await tx
    .deleteFrom('log_owners')
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('block', '=', block)
    .where(({ eb, refTuple, tuple }) =>
      eb(
        refTuple('user_id', 'api_key_id'),
        'in',
        owners.map(({ userId, keyId }) => tuple(userId, keyId)),
      ),
    )
    .execute()
}

async function lockPosition(tx: Db, { tenantId, chain }: Chain): Promise<number> {
  await tx
    .updateTable('log_positions')
    .set(({ ref }) => ({ size: ref('size') }))
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .execute()
  return findPosition(tx, { tenantId, chain })
}

/** Rebuilds these level-1 blocks and the blocks above them, in the transaction that expunged their payloads. */
export async function refreshBlocks(tx: Db, of: Chain, blocks: ReadonlySet<number>): Promise<void> {
  // Locks the position, so that the projector does not store a block from before the change.
  const size = await lockPosition(tx, of)
  const complete = [...blocks].filter((block) => (block + 1) * BLOCK_ENTRIES <= size)
  const parents = new Set(complete.map((block) => Math.floor(block / BLOCKS_PER_PARENT)))
  for (const parent of parents) await deleteOwners(tx, of, parent)
  for (const block of complete) {
    const entries = await readEntries(tx, of, { from: block * BLOCK_ENTRIES, limit: BLOCK_ENTRIES })
    const own = entries.filter(({ seq }) => seq < (block + 1) * BLOCK_ENTRIES)
    if (own.length === 0) continue
    const row = toFirstLevelRow(
      of.tenantId,
      of.chain,
      own.map((entry) => toSummary(entry, payloadOf(entry))),
    )
    await insertRows(tx, 'log_blocks', [row], { onConflict: BLOCK_KEY })
  }
  let changed = complete
  for (let level = 2; level <= TOP_LEVEL; level++) {
    changed = [...new Set(changed.map((block) => Math.floor(block / BLOCKS_PER_PARENT)))].filter(
      (block) => (block + 1) * entriesIn(level) <= size,
    )
    for (const block of changed) await saveParent(tx, of, level, block)
  }
}
