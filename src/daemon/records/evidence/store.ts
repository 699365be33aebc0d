import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely'
import type { ChainRow } from '../../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../../shared/evidence/commit.ts'
import { GENESIS_HASH } from '../../../shared/evidence/entry.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceCheckpointRow, EvidenceCommitRow, EvidenceEntryRow, Tables } from '../../platform/db/tables.ts'
import { withCanonicalPayload } from './stored-payload.ts'

/** An entry together with the hash of the previous entry. */
export type StoredEntry = EvidenceEntryRow & { prev_hash: string }

/** The entry with this id in the log of this tenant. */
export const findEntry = (db: Db, tenantId: string, id: string): Promise<StoredEntry | undefined> =>
  findOne(db, db.selectFrom('evidence_entries').selectAll().where('id', '=', id).where('tenant_id', '=', tenantId))

/**
 * The entry with this id in the log of any tenant. Use this function only for proofs, because a proof shows only hashes
 * and times.
 */
export const findPublicEntry = (db: Db, id: string): Promise<StoredEntry | undefined> =>
  findOne(db, db.selectFrom('evidence_entries').selectAll().where('id', '=', id))

async function findOne(
  db: Db,
  query: SelectQueryBuilder<Tables, 'evidence_entries', EvidenceEntryRow>,
): Promise<StoredEntry | undefined> {
  const row = await query.executeTakeFirst()
  return row && { ...withCanonicalPayload(row), prev_hash: await prevHashOf(db, row) }
}

async function prevHashOf(db: Db, { tenant_id, chain, seq }: EvidenceEntryRow): Promise<string> {
  if (seq === 0) return GENESIS_HASH
  const before = await db
    .selectFrom('evidence_entries')
    .select('entry_hash')
    .where('tenant_id', '=', tenant_id)
    .where('chain', '=', chain)
    .where('seq', '=', seq - 1)
    .executeTakeFirst()
  return before?.entry_hash ?? ''
}

/** A commit, in the form that is verified and published. Its leaves may include hashes of other tenants' entries. */
export type StoredCommit = CommitRow & { created_at: string }

export const findCommit = async (db: Db, id: string): Promise<StoredCommit | undefined> =>
  (await findCommits(db, [id]))[0]

/** Returns the commits with these ids, in any order. Unknown ids are omitted. */
export async function findCommits(db: Db, ids: readonly string[]): Promise<StoredCommit[]> {
  if (ids.length === 0) return []
  const rows = await db.selectFrom('evidence_commits').selectAll().where('id', 'in', ids).execute()
  return rows.map(toCommit)
}

/** If `leaves` is not a list of hashes, it becomes an empty list, so that verification of the commit fails. */
const toCommit = ({ leaves, ...row }: EvidenceCommitRow): StoredCommit => ({
  ...row,
  leaves: HASHES.test(leaves) ? (leaves.match(/.{64}/g) ?? []) : [],
})

/** Hex hashes, concatenated. */
const HASHES = /^(?:[0-9a-f]{64})*$/

/** A chain: its size, the hash of its last entry, and its last checkpoint. */
export type StoredChain = {
  tenantId: string
  chain: string
  size: number
  headHash: string
  checkpoint: EvidenceCheckpointRow | undefined
}

/** The chains of a tenant that have entries or checkpoints, by name. */
export async function listChains(db: Db, tenantId: string): Promise<StoredChain[]> {
  const chains: StoredChain[] = []
  for (const { chain, size, checkpointed } of await measureChains(db, tenantId)) {
    const [head] = await readChain(db, tenantId, chain, { from: size - 1, limit: 1 })
    const checkpoint = await findCheckpoint(db, tenantId, chain, checkpointed)
    chains.push({ tenantId, chain, size, headHash: head?.entry_hash ?? GENESIS_HASH, checkpoint })
  }
  return chains
}

export type MeasuredChain = {
  tenant_id: string
  chain: string
  size: number
  /** The size of the chain at its last checkpoint, or 0. */
  checkpointed: number
  /** Creation time of the first entry after the last checkpoint. Null if there is no such entry. */
  waiting_since: string | null
}

/**
 * The sizes of the chains of one tenant, or of all tenants. The size is 0 for a deleted chain that has checkpoints.
 * Reads only a few rows per chain.
 */
export async function measureChains(db: Db, tenantId?: string): Promise<MeasuredChain[]> {
  const only = tenantId === undefined ? sql`` : sql`where id = ${tenantId}`
  const { rows } = await sql<MeasuredChain>`
    select measured.*, (
      select created_at from evidence_entries as waiting
      where waiting.tenant_id = measured.tenant_id and waiting.chain = measured.chain and waiting.seq = checkpointed
    ) as waiting_since
    from (
      with recursive chains (tenant_id, chain) as (
        select id, ${firstChain(sql`tenants.id`, sql`''`)} from tenants ${only}
        union all
        select tenant_id, ${firstChain(sql`chains.tenant_id`, sql`chains.chain`)} from chains where chain is not null
      )
      select tenant_id, chain,
        coalesce((
          select max(seq) + 1 from evidence_entries as entry
          where entry.tenant_id = chains.tenant_id and entry.chain = chains.chain
        ), 0) as size,
        coalesce((
          select max(tree_size) from evidence_checkpoints as made
          where made.tenant_id = chains.tenant_id and made.chain = chains.chain
        ), 0) as checkpointed
      from chains where chain is not null
    ) as measured
    order by tenant_id, chain`.execute(db)
  return rows
}

/** Returns the tenant's next chain after `after`, in the order of the names. */
const firstChain = (tenantId: RawBuilder<unknown>, after: RawBuilder<unknown>) => sql`(
  select min(first) from (
    select min(chain) as first from evidence_entries as entry where entry.tenant_id = ${tenantId} and entry.chain > ${after}
    union all
    select min(chain) from evidence_checkpoints as made where made.tenant_id = ${tenantId} and made.chain > ${after}
  ) as either
)`

/**
 * Returns entries of a chain by position, starting at `from`. Returns fewer than `limit` entries only at the end of the
 * chain.
 */
export async function readChain(
  db: Db,
  tenantId: string,
  chain: string,
  { from, limit }: { from: number; limit: number },
): Promise<ChainRow[]> {
  const rows = await db
    .selectFrom('evidence_entries')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('seq', '>=', from)
    .orderBy('seq')
    .limit(limit)
    .execute()
  return rows.map(withCanonicalPayload)
}

/** The first checkpoint that covers the entry at this position. */
export const findCheckpointOver = (
  db: Db,
  tenantId: string,
  chain: string,
  seq: number,
): Promise<EvidenceCheckpointRow | undefined> =>
  db
    .selectFrom('evidence_checkpoints')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('tree_size', '>', seq)
    .orderBy('tree_size')
    .limit(1)
    .executeTakeFirst()

/** The checkpoint of a chain at exactly this size. */
export const findCheckpoint = (
  db: Db,
  tenantId: string,
  chain: string,
  treeSize: number,
): Promise<EvidenceCheckpointRow | undefined> =>
  db
    .selectFrom('evidence_checkpoints')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('tree_size', '=', treeSize)
    .executeTakeFirst()
