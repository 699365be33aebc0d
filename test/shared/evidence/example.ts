import { toCanonicalJson } from '../../../src/shared/canonical-json.ts'
import { entryHash, GENESIS_HASH, payloadHash } from '../../../src/shared/evidence/entry.ts'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { inclusionPath, treeRoot } from '../../../src/shared/evidence/merkle.ts'
import { chainOrigin } from '../../../src/shared/evidence/note.ts'
import { toReceipt } from '../../../src/shared/evidence/receipt.ts'
import { testCommit, testNote, testSigner } from './signer.ts'

/** Signs with the private key of the first example of RFC 8032, so that the example can be reproduced anywhere. */
export const exampleSigner = testSigner(
  'aigw-example',
  '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
)

const TENANT = '65f000000000000000000001'
const CHAIN = 'requests-0123456789ab'

const payloads = [
  { kind: 'request', outcome: 'allowed', status: 200, cost: { nanos: 31_500, points: 0.5 } },
  { kind: 'request', outcome: 'denied', status: 400, requested_model: 'größer/als', tiny: 1e-7, large: 1e21 },
  { kind: 'request', outcome: 'allowed', status: 200, cost: { nanos: 0, points: 0 } },
]

const entries: ReturnType<typeof toEntry>[] = []
for (const payload of payloads) {
  entries.push(toEntry(payload, entries.length, entries.at(-1)?.entry_hash ?? GENESIS_HASH))
}

function toEntry(contents: object, seq: number, prev_hash: string) {
  const id = `jti-0190a1b2-c3d4-7e5f-8a9b-00000000000${seq}`
  const created_at = `2026-01-31T12:00:${String(seq).padStart(2, '0')}.000Z`
  const fields = { tenant_id: TENANT, chain: CHAIN, seq, id, created_at }
  const payload = toCanonicalJson({ version: 1, bundle_id: id, issued_at: created_at, ...contents })
  const payload_hash = payloadHash(payload)
  const entry_hash = entryHash(fields, prev_hash, payload_hash)
  return { ...fields, payload, prev_hash, payload_hash, entry_hash, leaf_index: seq }
}

const leaves = entries.map((entry) => Buffer.from(entry.entry_hash, 'hex'))
const root = treeRoot(Buffer.concat(leaves))
export const exampleCommit = testCommit(
  '65f00000000000000000000c',
  entries.map((entry) => entry.entry_hash),
  exampleSigner,
)
const origin = chainOrigin('aigw-example', TENANT, CHAIN)
const [first, second] = entries

export const exampleKeys = toKeySet([exampleSigner.published])
export const exampleReceipt = toReceipt(JSON.parse(second!.payload), second!, exampleCommit)
/** The receipt of a payload that is alone in its chain and commit. */
export function exampleReceiptOf(contents: object, prevHash = GENESIS_HASH): object {
  const entry = toEntry(contents, 0, prevHash)
  return toReceipt(
    JSON.parse(entry.payload),
    entry,
    testCommit('65f00000000000000000000d', [entry.entry_hash], exampleSigner),
  )
}
/** The receipts of this many payloads of one commit. */
export function exampleReceiptsOf(size: number): object[] {
  const together = Array.from({ length: size }, (_, seq) => toEntry({}, seq, GENESIS_HASH))
  const hashes = together.map((entry) => entry.entry_hash)
  const commit = testCommit('65f00000000000000000000e', hashes, exampleSigner)
  return together.map((entry) => toReceipt(JSON.parse(entry.payload), entry, commit))
}
export const exampleCheckpoint = testNote(origin, 3, root.toString('base64'), exampleSigner)
export const exampleProof = {
  chain: CHAIN,
  index: 1,
  size: 3,
  entry_hash: second!.entry_hash,
  path: inclusionPath(leaves, 1).map((node) => node.toString('hex')),
  root: root.toString('hex'),
}

/** The examples of docs/evidence.md, by their names there. */
export const exampleValues: Record<string, string> = {
  payload: first!.payload,
  payload_hash: first!.payload_hash,
  prev_hash: first!.prev_hash,
  entry_hash: first!.entry_hash,
  'entry_hash of the second': second!.entry_hash,
  'entry_hash of the third': entries[2]!.entry_hash,
  root: root.toString('hex'),
  kid: exampleSigner.published.kid,
  'commit signature': exampleCommit.signature,
}
