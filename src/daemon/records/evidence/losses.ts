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

/** A part of the evidence that is lost. */
export type FoundLoss = {
  id: string
  cause: LossCause
  /** One sentence. */
  detail: string
  /** The chain that contradicts its notes. It is closed: no entry and no checkpoint is signed for it anymore. */
  closes?: { tenantId: string; chain: string } | undefined
}

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

/** Returns the chain that continues this chain, or the chain itself if it is not closed. */
export function followSuccessors(chain: string, successors: Successors): string {
  let last = chain
  for (let next = successors.get(last); next !== undefined; next = successors.get(last)) last = next
  return last
}

/** Returns the chain to which changes of the tenant are appended. */
export async function changesChainOf(tx: Db, tenantId: string): Promise<string> {
  const closed = await tx
    .selectFrom('evidence_losses')
    .select(['chain', 'successor'])
    .where('tenant_id', '=', tenantId)
    .where('chain', 'is not', null)
    .execute()
  return followSuccessors(CHANGES_CHAIN, successorsOf(closed))
}

/** Whether a loss has closed the log with this id. */
export const isClosedLog = async (db: Db, id: string): Promise<boolean> =>
  (await db
    .selectFrom('evidence_losses')
    .select('id')
    .where('id', '=', id)
    .where('chain', 'is not', null)
    .executeTakeFirst()) !== undefined

/** Returns the ids of all logs that a loss has closed. */
export async function closedLogs(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('evidence_losses').select('id').where('chain', 'is not', null).execute()
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

/** Sets a loss to acknowledged. Returns undefined if there is none that is not acknowledged yet. */
export async function acknowledgeLoss(tx: Db, id: string, at: string): Promise<EvidenceLossRow | undefined> {
  const loss = await tx
    .updateTable('evidence_losses')
    .set({ acknowledged_at: at })
    .where('id', '=', id)
    .where('acknowledged_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
  const [, daemonId, createdAt] = (loss && FILE_LOSS.exec(id)) ?? []
  if (daemonId !== undefined && createdAt !== undefined) {
    // The next file is a new file, so its loss gets a new id.
    await tx
      .deleteFrom('evidence_files')
      .where('daemon_id', '=', daemonId)
      .where('created_at', '=', createdAt)
      .execute()
  }
  return loss
}

/** Returns the id of the loss of a checkpoint file. */
export const fileLossId = (daemonId: string, createdAt: string): string => `file:${daemonId}:${createdAt}`
const FILE_LOSS = /^file:([0-9a-f]{12}):(.+)$/

/** Returns the rows that were added. A loss that an operator has acknowledged is not reported again. */
async function insertLosses(tx: Db, found: readonly FoundLoss[], at: string): Promise<EvidenceLossRow[]> {
  // Two daemons that find the same loss must agree on the successor. On SQLite, transactions are already serialised.
  if (engineOf(tx).name === 'postgres') await sql`lock table evidence_losses in exclusive mode`.execute(tx)
  const successors = new Map(successorsOf(await listLosses(tx)))
  const added: EvidenceLossRow[] = []
  for (const { id, cause, detail, closes } of found) {
    const chain = closes?.chain ?? null
    // The chains of one daemon have the same name in every tenant, and get the same successor.
    const successor = chain === null ? null : (successors.get(chain) ?? newSuccessor(chain))
    const row: EvidenceLossRow = {
      ...{ id, cause, tenant_id: closes?.tenantId ?? null, chain, successor, detail },
      ...{ found_at: at, acknowledged_at: null },
    }
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('evidence_losses')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doNothing())
      .executeTakeFirstOrThrow()
    if (numInsertedOrUpdatedRows === 0n) continue
    added.push(row)
    if (chain !== null && successor !== null) successors.set(chain, successor)
  }
  return added
}

const successorsOf = (rows: readonly Pick<EvidenceLossRow, 'chain' | 'successor'>[]): Successors =>
  new Map(rows.flatMap(({ chain, successor }) => (chain && successor ? [[chain, successor] as const] : [])))

/** Example: `changes-1f0a` for `changes` and for `changes-77e2`. */
const newSuccessor = (chain: string): string =>
  `${chain.replace(/^(changes|requests-[0-9a-f]{12}).*$/, '$1')}-${randomBytes(2).toString('hex')}`

/** Returns the loss of a chain that contradicts its notes. */
export const lossOfChain = (tenantId: string, chain: string, cause: LossCause, detail: string): FoundLoss => ({
  id: logId(tenantId, chain),
  cause,
  detail,
  closes: { tenantId, chain },
})
