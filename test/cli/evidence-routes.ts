import { payloadHash } from '../../src/shared/evidence/entry.ts'
import { type ExportedChain, exportOrigin, exportRoot } from '../../src/shared/evidence/export-root.ts'
import { ChainCounts, type ExportStatement } from '../../src/shared/evidence/export-statement.ts'
import { toKeySet } from '../../src/shared/evidence/keys.ts'
import { treeRoot } from '../../src/shared/evidence/merkle.ts'
import { checkpointText } from '../../src/shared/evidence/note.ts'
import { toReceipt } from '../../src/shared/evidence/receipt.ts'
import { consistencyProof } from '../../src/shared/evidence/subtrees.ts'
import { EVIDENCE_PAGE } from '../../src/shared/spec-limits.ts'
import { type TestSigner, testNote, testSigner } from '../shared/evidence/signer.ts'
import { checkpointOf, type StoredChain, storedChain } from '../shared/evidence/stored-chain.ts'
import { type FakeGateway, json, type Received, type Script } from './fake-gateway.ts'

export const TENANT = 'acme'
export const CHAIN = 'requests-0123456789ab'
export const SIGNER = testSigner('aigw-test', '11'.repeat(32))
const TRANSPARENCY = '/api/external/transparency'

/** The checkpoint of the first `size` entries, as a signed note. */
export function noteOf({ rows }: StoredChain, size: number, signer: TestSigner = SIGNER): string {
  const { origin, root } = checkpointOf(rows.slice(0, size))
  return testNote(origin, size, root, signer)
}

/** The receipt of one entry. */
export function receiptOf({ rows, commits }: StoredChain, seq: number): object {
  const row = rows[seq]
  const commit = commits.get(row?.commit_id ?? '')
  if (row?.payload == null || commit === undefined) throw new Error(`entry ${seq} has no payload or commit`)
  const prev_hash = rows[seq - 1]?.entry_hash ?? '0'.repeat(64)
  return toReceipt(JSON.parse(row.payload), { ...row, prev_hash }, commit)
}

/** Has a gateway answer with this one chain. `size` is how long it says that the chain is. */
export function serveEvidence(gateway: FakeGateway, chain: StoredChain = SMALL_CHAIN, size?: number): void {
  for (const [route, script] of Object.entries(evidenceRoutes(chain, size))) gateway.on(route, script)
}

function evidenceRoutes(chain: StoredChain, size = chain.rows.length): Record<string, Script> {
  const { rows, commits } = chain
  const notes = [Math.floor(size / 2), size].map((tree_size) => ({
    chain: CHAIN,
    tree_size,
    root: Buffer.from(checkpointOf(rows.slice(0, tree_size)).root, 'base64').toString('hex'),
    kid: SIGNER.published.kid,
    note: noteOf(chain, tree_size),
    created_at: '2026-01-01T00:00:00.000Z',
  }))
  const head = { chain: CHAIN, size, head: rows[size - 1]?.entry_hash ?? '0'.repeat(64), checkpoint: notes.at(-1) }
  const statementOf = (exported: ExportedChain[], manifest_sha256: string): ExportStatement => ({
    version: 1,
    signed_at: '2026-01-01T00:00:00.000Z',
    tenant_id: TENANT,
    manifest_sha256,
    chains: exported.map((own) => {
      const counts = new ChainCounts()
      for (const { seq, payload } of rows) if (seq < own.size && payload === null) counts.addExpunged(seq)
      for (const { tree_size, root } of notes) {
        if (tree_size < own.size) counts.addCheckpoint(tree_size, Buffer.from(root, 'hex').toString('base64'))
      }
      return { chain: own.chain, entries: size, size: own.size, ...counts.end() }
    }),
  })
  return {
    'GET /.well-known/aigw-keys.json': json(200, toKeySet([SIGNER.published])),
    [`GET ${TRANSPARENCY}/chains`]: json(200, { tenant_id: TENANT, chains: [head] }),
    [`GET ${TRANSPARENCY}/chains/${CHAIN}/entries`]: (request, response) => {
      const [from, limit] = [numberIn(request, 'from'), Math.min(numberIn(request, 'limit'), EVIDENCE_PAGE)]
      const entries = rows.slice(from, from + limit).map(({ tenant_id: _, chain: __, ...row }) => row)
      return json(200, { tenant_id: TENANT, chain: CHAIN, from, entries })(request, response)
    },
    [`GET ${TRANSPARENCY}/commits`]: (request, response) => {
      const ids = queryOf(request).get('ids')?.split(',') ?? []
      if (ids.length > 100) throw new Error('more than 100 commits were asked for')
      const found = ids.flatMap((id) => commits.get(id) ?? [])
      return json(200, { commits: found.map((commit) => ({ created_at: '', ...commit })) })(request, response)
    },
    [`GET ${TRANSPARENCY}/checkpoints`]: (request, response) => {
      const from = numberIn(request, 'from')
      return json(200, { checkpoints: notes.filter(({ tree_size }) => tree_size > from) })(request, response)
    },
    [`GET ${TRANSPARENCY}/proofs/consistency`]: async (request, response) => {
      const [from, to] = [numberIn(request, 'from'), numberIn(request, 'to')]
      const leaves = rows.slice(0, to).map(({ entry_hash }) => Buffer.from(entry_hash, 'hex'))
      const path = await consistencyProof(from, to, (level, index) =>
        treeRoot(Buffer.concat(leaves.slice(index * 2 ** level, (index + 1) * 2 ** level))),
      )
      const proof = { chain: CHAIN, from, to, path: path.map((hash) => hash.toString('hex')) }
      return json(200, proof)(request, response)
    },
    [`POST ${TRANSPARENCY}/checkpoints`]: json(200, { checkpoints: notes.slice(1) }),
    [`POST ${TRANSPARENCY}/exports/sign`]: (request, response) => {
      const { chains, manifest_sha256, row_count } = Object(request.json)
      const { kid, name, publicKey: _ } = SIGNER.published
      const stated = statementOf(chains, manifest_sha256)
      const statement = JSON.stringify(stated)
      const origin = exportOrigin(name, payloadHash(statement))
      const root = exportRoot(chains).toString('base64')
      const text = checkpointText({ origin, size: row_count, root })
      const note = testNote(origin, row_count, root, SIGNER)
      const signature = SIGNER.sign(text).toString('base64')
      return json(200, { kid, name, origin, statement, note, signature })(request, response)
    },
    [`POST ${TRANSPARENCY}/keys/rotate`]: json(200, {
      success: true,
      message: 'Rotated',
      key: { kid: 'new', name: 'aigw-test', created_at: '2026-01-01T00:00:00.000Z' },
    }),
    [`GET ${TRANSPARENCY}/losses`]: json(200, {
      losses: [
        {
          id: 'file:checkpoints.txt',
          cause: 'file_missing',
          tenant_id: null,
          chain: null,
          successor: null,
          detail: 'checkpoints.txt is missing',
          found_at: '2026-01-01T00:00:00.000Z',
          acknowledged_at: '2026-01-02T00:00:00.000Z',
        },
      ],
    }),
    'GET /api/admin/usage/reconcile': json(200, {
      success: true,
      month: '2026-01',
      receipts: 7,
      holders: 2,
      missing: 0,
      unreadable: 0,
      truncated: false,
      differences: [],
    }),
    'GET /api/admin/secrets/master-key': json(200, MASTER_KEY),
    'POST /api/admin/secrets/rotate-master': json(202, MASTER_KEY),
    'GET /api/external/receipts/jti-1/bundle': (request, response) =>
      json(200, { success: true, bundle: { receipt: receiptOf(chain, 1), tlog_proof: 'c2sp.org/tlog-proof@v1\n' } })(
        request,
        response,
      ),
    'GET /api/external/receipts/jti-1': (request, response) =>
      json(200, { success: true, receipt: receiptOf(chain, 1) })(request, response),
  }
}

const MASTER_KEY = {
  success: true,
  master_key: { id: '0123456789abcdef', since: '2026-01-01T00:00:00.000Z', rotation: null },
}

const queryOf = ({ path }: Received): URLSearchParams => new URLSearchParams(path.split('?')[1])
const numberIn = (request: Received, name: string): number => Number(queryOf(request).get(name))

export const SMALL_CHAIN = storedChain(7, 3, SIGNER)
