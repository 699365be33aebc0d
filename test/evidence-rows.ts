import type { Db } from '../src/daemon/platform/db/db.ts'
import type { EvidenceEntryRow } from '../src/daemon/platform/db/tables.ts'
import { createMasterKey } from '../src/daemon/platform/secrets/seal.ts'
import { findHead, linkEntry, signCommit } from '../src/daemon/records/evidence/chains.ts'
import { openSigningKeys, type Signer } from '../src/daemon/records/evidence/signing-keys.ts'
import { toCanonicalJson } from '../src/shared/canonical-json.ts'
import { chainOrigin, checkpointText, signedNote } from '../src/shared/evidence/note.ts'
import { newBundleId, newId } from '../src/shared/ids.ts'
import { isoTime, systemClock } from '../src/shared/time.ts'
import { TEST_MASTER_KEY } from './webhook-rows.ts'

const HASH = 'ab'.repeat(32)

/** The payload of a request as the gateway writes it. A test passes only the fields that matter to it. */
export const requestPayload = (given: Record<string, unknown> = {}) => ({
  version: 1,
  kind: 'request',
  issued_at: '2026-01-01T00:00:00.000Z',
  type: 'api_access',
  operation: 'chat.completion',
  severity: 'info',
  result: 'success',
  compliance_category: 'data_protection',
  request_id: `req-${newId()}`,
  endpoint: 'POST /api/external/chat/completions',
  actor: 'key',
  user_id: newId(),
  key_id: newId(),
  metadata: { ending: 'complete', streamed: false },
  mode: 'enforce',
  outcome: 'allowed',
  status: 200,
  model: 'test/any',
  requested_model: 'test/any',
  policy: { name: 'SMLTP Internal', hash: HASH, source: 'default' },
  attempts: [{ model: 'test/any', status: 'success', latency_ms: 12, entitlement: null }],
  usage: { input_tokens: 11, output_tokens: 5 },
  cost: { mode: 'user-completions', nanos: 21_000, points: 1 },
  inspection: {},
  request_sha256: HASH,
  response_sha256: HASH,
  index: 'Zero-Knowledge',
  documents_retrieved: 0,
  times: { started_at: '2026-01-01T00:00:00.000Z', first_token_ms: 9, latency_ms: 12 },
  ...given,
})

/** The payload of an administrative change, with defaults. */
export const changePayload = (given: Record<string, unknown> = {}) => ({
  version: 1,
  kind: 'change',
  issued_at: '2026-01-01T00:00:00.000Z',
  type: 'group_management',
  operation: 'create',
  severity: 'info',
  result: 'success',
  compliance_category: 'authorization',
  description: 'External API: created group "ops"',
  request_id: `req-${newId()}`,
  endpoint: 'POST /api/external/groups',
  actor: 'key',
  user_id: newId(),
  key_id: newId(),
  resource_type: 'group',
  resource_id: newId(),
  metadata: {},
  ...given,
})

/** The name of a new chain of requests, as a daemon creates one. */
export const newRequestChain = (): string => `requests-${newId().slice(-12)}`

/**
 * Appends entries to a tenant's chain in one commit, signed with the key of the store.
 * @param entries payloads with the time of each entry
 */
export async function addEntries(
  db: Db,
  tenantId: string,
  chain: string,
  entries: readonly { payload: object; createdAt?: string; id?: string }[],
): Promise<EvidenceEntryRow[]> {
  const signer = await signerOf(db)
  const commitId = newId()
  const rows: EvidenceEntryRow[] = []
  let head = await findHead(db, tenantId, chain)
  for (const { payload, createdAt = isoTime(systemClock.now()), id = newBundleId() } of entries) {
    const bundle = 'kind' in payload && payload.kind === 'request' ? { bundle_id: id } : {}
    const row = linkEntry(
      head,
      { chain, commitId, leafIndex: rows.length },
      { id, tenantId, createdAtMs: Date.parse(createdAt), payload: toCanonicalJson({ ...payload, ...bundle }) },
    )
    head = { size: head.size + 1, hash: row.entry_hash }
    rows.push(row)
  }
  await db.insertInto('evidence_entries').values(rows).execute()
  await db
    .insertInto('evidence_commits')
    .values(signCommit(commitId, rows, signer, systemClock.now()))
    .execute()
  return rows
}

/** Adds a signed checkpoint of a chain with one entry. The root of its tree is the hash of the entry. */
export async function addCheckpoint(
  db: Db,
  { tenant_id, chain, entry_hash: root }: Pick<EvidenceEntryRow, 'tenant_id' | 'chain' | 'entry_hash'>,
): Promise<void> {
  const { kid, name, publicKey, sign } = await signerOf(db)
  const text = checkpointText({
    origin: chainOrigin(name, tenant_id, chain),
    size: 1,
    root: Buffer.from(root, 'hex').toString('base64'),
  })
  const note = signedNote(text, name, publicKey, sign(text))
  const row = { tenant_id, chain, tree_size: 1, root, kid, note, created_at: isoTime(systemClock.now()) }
  await db.insertInto('evidence_checkpoints').values(row).execute()
}

async function signerOf(db: Db): Promise<Signer> {
  const options = { masterKey: createMasterKey(TEST_MASTER_KEY), name: undefined, clock: systemClock }
  return (await openSigningKeys(db, options)).current()
}
