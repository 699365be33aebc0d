import { toCanonicalJson } from '../../../src/shared/canonical-json.ts'
import type { ChainRow } from '../../../src/shared/evidence/chain-check.ts'
import type { CommitRow } from '../../../src/shared/evidence/commit.ts'
import { entryHash, GENESIS_HASH, payloadHash } from '../../../src/shared/evidence/entry.ts'
import { treeRoot } from '../../../src/shared/evidence/merkle.ts'
import { type Checkpoint, chainOrigin } from '../../../src/shared/evidence/note.ts'
import { type TestSigner, testCommit } from './signer.ts'

const CHAIN = 'requests-0123456789ab'

/** A stored chain. */
export type StoredChain = { rows: ChainRow[]; commits: Map<string, CommitRow> }

/** This many entries of tenant `acme`. Each commit contains the next few together with entries of another tenant. */
export function storedChain(size: number, perCommit: number, signer: TestSigner, chain = CHAIN): StoredChain {
  const rows: ChainRow[] = []
  const commits: StoredChain['commits'] = new Map()
  while (rows.length < size) {
    const id = `commit-${commits.size}${chain === CHAIN ? '' : `-${chain}`}`
    const leaves = [payloadHash(`an entry of another tenant in ${id}`)]
    for (let at = 0; at < perCommit && rows.length < size; at += 1) {
      const contents = {
        type: 'api_access',
        user_id: `=user-${rows.length % 7}`,
        result: 'success',
        text: 'Ünïcode "…"',
      }
      const row = nextRow(rows.at(-1), contents, id, leaves.length, chain)
      rows.push(row)
      leaves.push(row.entry_hash)
    }
    commits.set(id, testCommit(id, leaves, signer))
  }
  return { rows, commits }
}

/** The next row of a chain, with correct hashes. */
export function nextRow(
  before: ChainRow | undefined,
  contents: object,
  commitId: string,
  leafIndex: number,
  chain = CHAIN,
): ChainRow {
  const seq = before === undefined ? 0 : before.seq + 1
  const created_at = new Date(Date.UTC(2026, 0, 1) + seq * 1000).toISOString()
  const fields = { tenant_id: 'acme', chain, seq, id: `jti-${seq}`, created_at }
  const payload = toCanonicalJson({ bundle_id: fields.id, ...contents })
  const payload_hash = payloadHash(payload)
  const entry_hash = entryHash(fields, before?.entry_hash ?? GENESIS_HASH, payload_hash)
  return { ...fields, payload, payload_hash, entry_hash, commit_id: commitId, leaf_index: leafIndex }
}

/** The head of the tree over these rows. */
export const checkpointOf = (rows: readonly ChainRow[]): Checkpoint => ({
  origin: chainOrigin('aigw-test', 'acme', rows[0]?.chain ?? CHAIN),
  size: rows.length,
  root: treeRoot(Buffer.from(rows.map((row) => row.entry_hash).join(''), 'hex')).toString('base64'),
})
