import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { CHANGES_CHAIN, logId } from '../../../shared/evidence/entry.ts'
import { EVIDENCE_KEY_CACHE_MS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { LossCause } from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { createFreshCache } from '../../platform/db/fresh-cache.ts'
import type { EvidenceLossRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import { forgetFile } from './file-losses.ts'
import type { FoundLoss } from './found-loss.ts'

/**
 * The losses of this store. A loss closes the chain that it concerns. The writers of a closed chain continue in its
 * successor, because an entry after a loss would fork the log. Losses count as open until an operator acknowledges
 * them.
 */
export type Losses = {
  /** Stores losses that are not stored yet, logs them, and closes their chains. @throws errors of the store */
  report(found: readonly FoundLoss[]): Promise<void>
  /** The successor of each closed chain. Synchronous while the cache is fresh. @throws errors of the store */
  successors(): Successors | Promise<Successors>
  /** The causes of the losses that are not acknowledged, each once. @throws errors of the store */
  openCauses(): LossCause[] | Promise<LossCause[]>
  /** Call this after a change of the stored losses. */
  forget(): void
}

/** The names of successors, by the names of closed chains. */
export type Successors = ReadonlyMap<string, string>

type Known = { successors: Successors; openCauses: LossCause[] }

/** Creates the record of the losses of this store. Other daemons see a new loss within EVIDENCE_KEY_CACHE_MS. */
export function createLosses({ db, clock, log }: { db: Db; clock: Clock; log: Pick<Log, 'error'> }): Losses {
  const isShared = engineOf(db).name === 'postgres'
  const cache = createFreshCache<Known>({
    clock,
    // With SQLite, no other process can store a loss.
    maxAgeMs: isShared ? EVIDENCE_KEY_CACHE_MS : Number.POSITIVE_INFINITY,
    async load() {
      const rows = await listLosses(db)
      const open = rows.filter(({ acknowledged_at }) => acknowledged_at === null)
      return { successors: successorsOf(rows), openCauses: [...new Set(open.map(({ cause }) => cause))].sort() }
    },
  })
  const known = <T>(read: (known: Known) => T): T | Promise<T> => {
    const value = cache.of('')
    return value instanceof Promise ? value.then(read) : read(value)
  }

  return {
    async report(found) {
      if (found.length === 0) return
      try {
        const added = await db.transaction().execute((tx) => insertLosses(tx, found, isoTime(clock.now())))
        for (const { cause, detail, tenant_id, chain, successor } of added) {
          log.error(
            { cause, detail, tenant_id, chain, successor },
            'history is lost; see docs/evidence.md#lost-history',
          )
        }
      } finally {
        cache.forget()
      }
    },
    successors: () => known(({ successors }) => successors),
    openCauses: () => known(({ openCauses }) => openCauses),
    forget: () => cache.forget(),
  }
}

/** Returns all losses, oldest first. */
export const listLosses = (db: Db): Promise<EvidenceLossRow[]> =>
  db.selectFrom('evidence_losses').selectAll().orderBy('found_at').orderBy('id').execute()

/** Returns the losses that concern a chain of the tenant, by the name of the chain. */
export const lossesOfTenant = (db: Db, tenantId: string): Promise<(EvidenceLossRow & { chain: string })[]> =>
  db
    .selectFrom('evidence_losses')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('chain', 'is not', null)
    .$narrowType<{ chain: string }>()
    .orderBy('chain')
    .execute()

/**
 * Returns the chain that continues this chain, or the chain itself if it is not closed. Throws an error if a chain
 * continues itself, because this loop would never end.
 */
export function followSuccessors(chain: string, successors: Successors): string {
  let last = chain
  for (let steps = 0; steps <= successors.size; steps++) {
    const next = successors.get(last)
    if (next === undefined) return last
    last = next
  }
  throw new Error(`the chain ${chain} has no last successor: evidence_losses names ${last} as its own successor`)
}

/** Returns the chain to which changes of the tenant are appended. */
export async function changesChainOf(tx: Db, tenantId: string): Promise<string> {
  const closed = await tx
    .selectFrom('evidence_losses')
    .select(['chain', 'successor'])
    .where('tenant_id', '=', tenantId)
    .where('successor', 'is not', null)
    .execute()
  return followSuccessors(CHANGES_CHAIN, successorsOf(closed))
}

/** Whether a loss has closed the log with this id. */
export const isClosedLog = async (db: Db, id: string): Promise<boolean> =>
  (await db
    .selectFrom('evidence_losses')
    .select('id')
    .where('id', '=', id)
    .where('successor', 'is not', null)
    .executeTakeFirst()) !== undefined

/** Returns the ids of all logs that a loss has closed. */
export async function closedLogs(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('evidence_losses').select('id').where('successor', 'is not', null).execute()
  return rows.map(({ id }) => id)
}

/** Returns the closed chains of a tenant whose losses an operator has acknowledged. */
export async function acknowledgedChains(db: Db, tenantId: string): Promise<ReadonlySet<string>> {
  const rows = await db
    .selectFrom('evidence_losses')
    .select('chain')
    .where('tenant_id', '=', tenantId)
    .where('acknowledged_at', 'is not', null)
    .execute()
  return new Set(rows.flatMap(({ chain }) => chain ?? []))
}

/**
 * Sets a loss to acknowledged, and closes the chain that it doubts. Returns undefined if there is no such loss that is
 * not acknowledged yet.
 */
export async function acknowledgeLoss(tx: Db, id: string, at: string): Promise<EvidenceLossRow | undefined> {
  await lockLosses(tx)
  const rows = await listLosses(tx)
  const open = rows.find((row) => row.id === id && row.acknowledged_at === null)
  if (open === undefined) return undefined
  const successor = open.successor ?? successorOf(open.chain, successorsOf(rows))
  await tx.updateTable('evidence_losses').set({ acknowledged_at: at, successor }).where('id', '=', id).execute()
  await forgetFile(tx, id)
  return { ...open, acknowledged_at: at, successor }
}

/**
 * Stores losses, and returns the rows that were added or changed. A loss that an operator has acknowledged is not
 * reported again, unless it now closes its chain. For example, a daemon finds that the log of another daemon is missing.
 * Later, the other daemon starts, and must not continue that log.
 */
async function insertLosses(tx: Db, found: readonly FoundLoss[], at: string): Promise<EvidenceLossRow[]> {
  await lockLosses(tx)
  const rows = await listLosses(tx)
  const stored = new Map(rows.map((row) => [row.id, row]))
  const successors = new Map(successorsOf(rows))
  const added: EvidenceLossRow[] = []
  for (const { id, cause, detail, closes, doubts } of found) {
    const { tenantId = null, chain = null } = closes ?? doubts ?? {}
    const row: EvidenceLossRow = {
      ...{ id, cause, tenant_id: tenantId, chain, detail, found_at: at, acknowledged_at: null },
      successor: closes ? successorOf(closes.chain, successors) : null,
    }
    const known = stored.get(id)
    if (known !== undefined && knowledgeOf(known) >= knowledgeOf(row)) continue
    await tx
      .insertInto('evidence_losses')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
      .execute()
    stored.set(id, row)
    added.push(row)
    if (row.chain !== null && row.successor !== null) successors.set(row.chain, row.successor)
  }
  return added
}

/** A row that closes its chain replaces a row that only names it, and both replace a row without a chain. */
const knowledgeOf = ({ chain, successor }: EvidenceLossRow): number => (successor ? 2 : chain ? 1 : 0)

/** Two daemons must agree on the successor of a chain. On SQLite, transactions are already serialised. */
async function lockLosses(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`lock table evidence_losses in exclusive mode`.execute(tx)
}

/** The chains of one daemon have the same name in every tenant, and get the same successor. */
const successorOf = <Chain extends string | null>(chain: Chain, successors: Successors) =>
  (chain === null ? null : (successors.get(chain) ?? newSuccessor(chain, successors))) as Chain

/** Returns the successors of the closed chains. */
export const successorsOf = (rows: readonly Pick<EvidenceLossRow, 'chain' | 'successor'>[]): Successors =>
  new Map(rows.flatMap(({ chain, successor }) => (chain && successor ? [[chain, successor] as const] : [])))

/**
 * Example: `changes-1f0a` for `changes` and for `changes-77e2`. Neither the chain itself nor a chain that is or has a
 * successor may become its successor: the chains would form a circle.
 */
export function newSuccessor(
  chain: string,
  successors: Successors,
  random: () => string = () => randomBytes(2).toString('hex'),
): string {
  const used = new Set([chain, ...successors.keys(), ...successors.values()])
  const base = chain.replace(/^(changes|requests-[0-9a-f]{12}).*$/, '$1')
  for (;;) {
    const name = `${base}-${random()}`
    if (!used.has(name)) return name
  }
}

/** Returns the loss of a chain that contradicts its notes. */
export const lossOfChain = (tenantId: string, chain: string, cause: LossCause, detail: string): FoundLoss => ({
  id: logId(tenantId, chain),
  cause,
  detail,
  closes: { tenantId, chain },
})
