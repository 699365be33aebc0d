import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import type { ChainRow } from '../../../shared/evidence/chain-check.ts'
import { HASH_PATTERN } from '../../../shared/evidence/entry.ts'
import { rootOfInclusion } from '../../../shared/evidence/merkle.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import {
  CheckpointsResponse,
  ConsistencyProofResponse,
  InclusionProofResponse,
  isChainName,
  ListChainsResponse,
  ListCheckpointsQuery,
  ListCommitsQuery,
  ListCommitsResponse,
  ProveConsistencyQuery,
  ProveInclusionQuery,
  ReadChainQuery,
  ReadChainResponse,
} from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceLossRow } from '../../platform/db/tables.ts'
import { type ResponseDoc, type Route, reply, route } from '../../platform/http/route.ts'
import { findHead } from './chains.ts'
import { listCheckpointsFrom, toShownCheckpoint } from './checkpoint-list.ts'
import { withCosignatures } from './cosignatures.ts'
import { lossesOfTenant } from './losses.ts'
import { proveConsistency, proveInclusion, rootOfChain } from './proofs.ts'
import { findCommits, listChains, readChain } from './store.ts'

/**
 * Defines the routes that serve the raw log for offline verification (docs/evidence.md). A verification needs many
 * requests. Requests to these routes therefore do not count towards the daily and monthly limits of the key.
 */
export function chainRoutes({ db }: { db: Db }): Route[] {
  const common: Pick<Route, 'method' | 'access' | 'rate' | 'errors' | 'tags'> = {
    method: 'GET',
    access: 'smltp-security',
    rate: 'unmetered',
    errors: 'structured',
    tags: ['Transparency'],
  }
  const noSuchChain: ResponseDoc = { description: 'No chain of this tenant has this name', schema: StructuredError }
  const hole: ResponseDoc = { description: 'Entries of the chain are missing from the store', schema: StructuredError }

  /** @throws CHAIN_NOT_FOUND; EVIDENCE_MISMATCH if the store has only checkpoints of the chain, but no entries */
  async function sizeOf(tenantId: string, chain: string): Promise<number> {
    const { size } = isChainName(chain) ? await findHead(db, tenantId, chain) : { size: 0 }
    if (size > 0) return size
    const [checkpoint] = await listCheckpointsFrom(db, tenantId, chain, { from: 0, limit: 1 })
    throw checkpoint ? broken(chain) : new GatewayError('CHAIN_NOT_FOUND', 'No chain of this tenant has this name.')
  }

  /** @throws the errors of sizeOf, and VALIDATION_ERROR naming `field` if the size exceeds the chain */
  async function requireSize(tenantId: string, chain: string, field: string, size: number): Promise<void> {
    const entries = await sizeOf(tenantId, chain)
    if (size > entries)
      throw invalidField(field, `${field} must be at most ${entries}, the number of entries in the chain.`, size)
  }

  return [
    route({
      ...common,
      path: '/api/external/transparency/chains',
      summary: 'List the hash chains of the log and their current heads',
      responses: { 200: { description: 'All chains, by name', schema: ListChainsResponse } },
      async handle({ caller: { tenantId } }) {
        const losses = new Map((await lossesOfTenant(db, tenantId)).map((loss) => [loss.chain, loss]))
        const chains = (await listChains(db, tenantId)).map(({ chain, size, headHash, checkpoint }) => ({
          chain,
          size,
          head: headHash,
          checkpoint: checkpoint ? toShownCheckpoint(checkpoint) : null,
          loss: toShownLoss(losses.get(chain)),
        }))
        return reply(200, { tenant_id: tenantId, chains } satisfies z.input<typeof ListChainsResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/chains/{chain}/entries',
      summary: 'Read the rows of a chain, in order',
      query: ReadChainQuery,
      responses: {
        200: { description: 'Rows starting at `from`', schema: ReadChainResponse },
        404: noSuchChain,
        409: hole,
      },
      async handle({ caller: { tenantId }, params: { chain = '' }, query }) {
        await sizeOf(tenantId, chain)
        const entries = (await readChain(db, tenantId, chain, query)).map(toShownRow)
        return reply(200, { tenant_id: tenantId, chain, from: query.from, entries } satisfies z.input<
          typeof ReadChainResponse
        >)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/commits',
      summary: 'List commits: each is a batch of rows with one signature',
      query: ListCommitsQuery,
      responses: {
        200: { description: 'The commits that exist, of the requested ids', schema: ListCommitsResponse },
      },
      async handle({ query: { ids } }) {
        // A commit may include hashes of other tenants' entries. These hashes can be shown: they reveal nothing, and
        // the caller already has the commit's id.
        const commits = (await findCommits(db, ids)).map(({ leaves, ...commit }) => ({
          ...commit,
          leaves: [...leaves],
        }))
        return reply(200, { commits } satisfies z.input<typeof ListCommitsResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/checkpoints',
      summary: 'List signed checkpoints of the log',
      query: ListCheckpointsQuery,
      responses: {
        200: { description: 'The last checkpoint of each chain, or all of one chain', schema: CheckpointsResponse },
      },
      async handle({ caller: { tenantId }, query: { chain, ...page } }) {
        const rows =
          chain === undefined
            ? (await listChains(db, tenantId)).flatMap(({ checkpoint }) => checkpoint ?? [])
            : await listCheckpointsFrom(db, tenantId, chain, page)
        const checkpoints = (await withCosignatures(db, tenantId, rows)).map(toShownCheckpoint)
        return reply(200, { checkpoints } satisfies z.input<typeof CheckpointsResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/proofs/inclusion',
      summary: 'Prove that an entry is in a chain of this size',
      query: ProveInclusionQuery,
      responses: {
        200: { description: 'The path (RFC 6962)', schema: InclusionProofResponse },
        404: noSuchChain,
        409: hole,
      },
      async handle({ caller: { tenantId }, query: { chain, index, size } }) {
        await requireSize(tenantId, chain, 'size', size)
        if (index >= size) throw invalidField('index', 'index counts from 0 and must be below size.', index)
        const [row] = await readChain(db, tenantId, chain, { from: index, limit: 1 })
        if (row?.seq !== index || !HASH_PATTERN.test(row.entry_hash)) throw broken(chain)
        const path = await provenOf(chain, proveInclusion(db, tenantId, chain, index, size))
        const root = rootOfInclusion(Buffer.from(row.entry_hash, 'hex'), index, size, path)
        if (!root) throw broken(chain)
        return reply(200, {
          ...{ chain, index, size },
          entry_hash: row.entry_hash,
          path: path.map(toHex),
          root: toHex(root),
        } satisfies z.input<typeof InclusionProofResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/proofs/consistency',
      summary: 'Prove that a chain of one size starts with all entries of a smaller size',
      query: ProveConsistencyQuery,
      responses: {
        200: { description: 'The path (RFC 6962)', schema: ConsistencyProofResponse },
        404: noSuchChain,
        409: hole,
      },
      async handle({ caller: { tenantId }, query: { chain, from, to } }) {
        await requireSize(tenantId, chain, 'to', to)
        if (from > to) throw invalidField('from', 'from must not be larger than to.', from)
        const path = await provenOf(chain, proveConsistency(db, tenantId, chain, from, to))
        return reply(200, {
          ...{ chain, from, to },
          path: path.map(toHex),
          from_root: toHex(await provenOf(chain, rootOfChain(db, tenantId, chain, from))),
          to_root: toHex(await provenOf(chain, rootOfChain(db, tenantId, chain, to))),
        } satisfies z.input<typeof ConsistencyProofResponse>)
      },
    }),
  ]
}

/** @throws EVIDENCE_MISMATCH if the store lacks entries of the chain */
async function provenOf<T>(chain: string, proof: Promise<T>): Promise<T> {
  try {
    return await proof
  } catch (error) {
    throw error instanceof RangeError ? broken(chain) : error
  }
}

const broken = (chain: string) =>
  new GatewayError(
    'EVIDENCE_MISMATCH',
    `Entries of the chain "${chain}" are missing from the store. See GET /transparency/chain-integrity.`,
  )

const toHex = (hash: Buffer): string => hash.toString('hex')

const toShownLoss = (loss: EvidenceLossRow | undefined) =>
  loss ? { cause: loss.cause, acknowledged_at: loss.acknowledged_at, successor: loss.successor } : null

const toShownRow = ({ tenant_id, chain, ...row }: ChainRow) => row
