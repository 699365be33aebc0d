import { hash } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import type { EvidenceEntryRow } from '../../../../src/daemon/platform/db/tables.ts'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { openSigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { commitText } from '../../../../src/shared/evidence/commit.ts'
import { entryHash, payloadHash } from '../../../../src/shared/evidence/entry.ts'
import { isSignedBy, parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { rootOfInclusion } from '../../../../src/shared/evidence/merkle.ts'
import { verifyNote } from '../../../../src/shared/evidence/note.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { PUBLIC_PROOF_RATE } from '../../../../src/shared/spec-limits.ts'
import { type PublicProof, PublicProofResponse } from '../../../../src/shared/wire/evidence.ts'
import { describeEachEngine } from '../../../engines.ts'
import { addEntries, changePayload, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'

const START = '2026-05-01T00:00:00.000Z'

const asStranger = (gateway: Gateway, path: string) => gateway.call('GET', path, undefined, { key: null })
const jsonOf = (id: string) => `/api/public/verify/${id}`
const pageOf = (id: string) => `/verify/${id}`

/** Changes that a test makes to the stored data of a request. */
type Spoiled = {
  db: Db
  chain: string
  entry: EvidenceEntryRow
  prevHash: string
  /** Of the checkpoint of its chain, and of the checkpoint of the changes. */
  note: string
  noteOfChanges: string
  setEntry(changed: Partial<EvidenceEntryRow>): Promise<unknown>
  setCheckpoint(changed: { note: string }): Promise<unknown>
}

const bytes = (hex: string) => Buffer.from(hex, 'hex')
const rootFrom = ({ leaf_index, tree_size, path, leaf_hash }: PublicProof['layer2']) =>
  rootOfInclusion(bytes(leaf_hash ?? ''), leaf_index, tree_size ?? 0, path.map(bytes))?.toString('hex')

describeEachEngine('the public proof of a request', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(Date.parse(START)) })

  async function recorded(count = 1) {
    const tenant = await addTestTenant(shared.current)
    const chain = newRequestChain()
    const payload = requestPayload({ user_id: tenant.admin.id })
    const rows = await addEntries(
      tenant.db,
      tenant.id,
      chain,
      Array.from({ length: count }, () => ({ payload, createdAt: START })),
    )
    return { tenant, chain, rows, id: rows[Math.floor(count / 2)]?.id ?? '' }
  }
  async function proofOf(id: string): Promise<PublicProof> {
    const answer = await asStranger(shared.current, jsonOf(id))
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers['cache-control']).toBe('no-store')
    return PublicProofResponse.strict().parse(answer.body)
  }

  test('leads from the entry to a signed commit and, if there is one, to a signed checkpoint', async () => {
    const { tenant, chain, rows, id } = await recorded(7)
    const keys = parseKeySet((await asStranger(shared.current, '/.well-known/aigw-keys.json')).body)
    const pending = await proofOf(id)
    expect(pending.layer1).toMatchObject({ seq: 3, prev_hash: rows[2]?.entry_hash, state: 'present' })
    expect(pending.layer2).toMatchObject({ state: 'verified', leaf_index: 3, tree_size: 7 })
    expect(pending.layer1.current_hash).toBe(pending.layer2.leaf_hash)
    expect(rootFrom(pending.layer2)).toBe(pending.layer2.merkle_root)
    const { origin, signer, kid, tree_size, merkle_root: root, signature } = pending.layer2
    const commitId = origin?.split('/').at(-1) ?? ''
    const text = commitText({ signer: signer ?? '', id: commitId, tree_size: tree_size ?? 0, root: root ?? '' })
    const key = keys.find((one) => one.kid === kid)
    expect(key && isSignedBy(key, text, Buffer.from(signature ?? '', 'base64'))).toBe(true)
    expect(pending.layer3).toMatchObject({ state: 'pending', note: null })

    const made = await tenant.call('POST', '/api/external/transparency/checkpoints', { chain })
    expect(made.status, made.text).toBe(200)
    await addEntries(tenant.db, tenant.id, chain, [{ payload: requestPayload(), createdAt: START }])
    await tenant.call('POST', '/api/external/transparency/checkpoints', {})
    const { layer3, layer2 } = await proofOf(id)
    expect(layer3).toMatchObject({ state: 'anchored', log_index: 3, tree_size: 7 })
    const checkpoint = verifyNote(layer3.note ?? '', keys)
    expect(checkpoint).toMatchObject({ size: 7, root: bytes(layer3.root ?? '').toString('base64') })
    const inLog = rootOfInclusion(bytes(layer2.leaf_hash ?? ''), 3, 7, layer3.path.map(bytes))
    expect(inLog?.toString('hex')).toBe(layer3.root)
  })

  test('contains no data about its owner or content', async () => {
    const { tenant, chain, id } = await recorded(2)
    await tenant.call('POST', '/api/external/transparency/checkpoints', {})
    for (const path of [jsonOf(id), pageOf(id)]) {
      const { text } = await asStranger(shared.current, path)
      const { id: userId, name, email } = tenant.admin
      const secrets = [tenant.id, chain, userId, name, email, 'test/any', 'SMLTP', 'completions', 'Zero-Knowledge']
      expect(secrets.filter((secret) => text.includes(secret))).toEqual([])
    }
  })

  test('is valid after the content was expunged', async () => {
    const { tenant, id } = await recorded()
    await tenant.db.updateTable('evidence_entries').set({ payload: null }).where('id', '=', id).execute()
    const { layer1, layer2 } = await proofOf(id)
    expect([layer1.state, layer2.state]).toEqual(['expunged', 'verified'])
  })

  test.each<{ what: string; states: string[]; spoil: (given: Spoiled) => Promise<unknown> }>([
    {
      what: 'its content was changed',
      states: ['failed', 'failed', 'failed'],
      spoil: ({ setEntry }) => setEntry({ payload: '{"forged":true}' }),
    },
    {
      what: 'its time was changed',
      states: ['failed', 'failed', 'failed'],
      spoil: ({ setEntry }) => setEntry({ created_at: '2026-04-30T00:00:00.000Z' }),
    },
    {
      what: 'its hash was changed',
      states: ['failed', 'failed', 'failed'],
      spoil: ({ setEntry }) => setEntry({ entry_hash: 'ab'.repeat(32) }),
    },
    {
      what: 'its hash is invalid',
      states: ['failed', 'failed', 'failed'],
      spoil: ({ setEntry }) => setEntry({ entry_hash: 'ab' }),
    },
    {
      what: 'it was rewritten with matching hashes',
      states: ['present', 'failed', 'failed'],
      spoil({ setEntry, entry, prevHash }) {
        const payload_hash = payloadHash('{"forged":true}')
        const entry_hash = entryHash(entry, prevHash, payload_hash)
        return setEntry({ payload: '{"forged":true}', payload_hash, entry_hash })
      },
    },
    {
      what: 'the previous entry was deleted',
      states: ['failed', 'failed', 'failed'],
      spoil: ({ db, chain, entry }) =>
        db
          .deleteFrom('evidence_entries')
          .where('chain', '=', chain)
          .where('seq', '=', entry.seq - 1)
          .execute(),
    },
    {
      what: 'its commit was deleted',
      states: ['present', 'failed', 'failed'],
      spoil: ({ db, entry }) => db.deleteFrom('evidence_commits').where('id', '=', entry.commit_id).execute(),
    },
    {
      what: 'another entry under its checkpoint was changed',
      states: ['present', 'verified', 'failed'],
      spoil: ({ db, chain }) =>
        db
          .updateTable('evidence_entries')
          .set({ entry_hash: 'ab'.repeat(32) })
          .where('chain', '=', chain)
          .where('seq', '=', 6)
          .execute(),
    },
    {
      what: 'another entry under its checkpoint was deleted',
      states: ['present', 'verified', 'failed'],
      spoil: ({ db, chain }) =>
        db.deleteFrom('evidence_entries').where('chain', '=', chain).where('seq', '=', 6).execute(),
    },
    {
      what: 'the note of its checkpoint was changed',
      states: ['present', 'verified', 'failed'],
      spoil: ({ setCheckpoint, note }) => setCheckpoint({ note: note.replace('\n7\n', '\n8\n') }),
    },
    {
      what: 'its checkpoint has the note of another chain',
      states: ['present', 'verified', 'failed'],
      spoil: ({ setCheckpoint, noteOfChanges }) => setCheckpoint({ note: noteOfChanges }),
    },
    {
      what: 'its checkpoint has no note',
      states: ['present', 'verified', 'failed'],
      spoil: ({ setCheckpoint }) => setCheckpoint({ note: '' }),
    },
  ])('reports that $what', async ({ spoil, states }) => {
    const { tenant, chain, rows, id } = await recorded(7)
    const { db } = tenant
    const made = await tenant.call('POST', '/api/external/transparency/checkpoints', {})
    const noteOf = (name: string) =>
      made.body.checkpoints.find((one: { chain: string; note: string }) => one.chain === name).note
    const [before, entry] = rows.slice(2)
    if (!before || !entry) throw new Error('no entries')
    await spoil({
      ...{ db, chain, entry, prevHash: before.entry_hash, note: noteOf(chain), noteOfChanges: noteOf('changes') },
      setEntry: (changed) => db.updateTable('evidence_entries').set(changed).where('id', '=', id).execute(),
      setCheckpoint: (changed) =>
        db.updateTable('evidence_checkpoints').set(changed).where('chain', '=', chain).execute(),
    })
    const { layer1, layer2, layer3 } = await proofOf(id)
    expect([layer1.state, layer2.state, layer3.state]).toEqual(states)
    expect((await asStranger(shared.current, pageOf(id))).text).toContain('failed verification')
  })

  test('is 404 for unknown ids and for changes, and 400 for ids that are too long', async () => {
    const { tenant } = await recorded()
    const [change] = await addEntries(tenant.db, tenant.id, 'changes', [{ id: newId(), payload: changePayload() }])
    for (const id of [change?.id ?? '', 'jti-nothing', '%3Cscript%3E']) {
      const json = await asStranger(shared.current, jsonOf(id))
      expect([json.status, json.body.success, json.body.error]).toEqual([404, false, 'Receipt not found'])
      const page = await asStranger(shared.current, pageOf(id))
      expect([page.status, page.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8'])
      expect(page.text).not.toContain('script')
    }
    const json = await asStranger(shared.current, jsonOf('x'.repeat(129)))
    expect([json.status, json.body.error]).toEqual([400, 'Invalid bundle id'])
    expect((await asStranger(shared.current, pageOf('x'.repeat(129)))).status).toBe(400)
  })

  test('is a page without scripts and external resources, with only its own style', async () => {
    const { id } = await recorded()
    const { headers, text, status } = await asStranger(shared.current, pageOf(id))
    expect(status).toBe(200)
    const style = /<style>([^<]*)<\/style>/.exec(text)?.[1] ?? ''
    expect(headers['content-security-policy']).toBe(
      `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    )
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(text).not.toMatch(/<script|style=|\son\w+=|<img|https?:/)
    expect(text).toContain((await proofOf(id)).layer1.payload_hash)
  })
})

test('a request without cache gets keys that another daemon has just created', async () => {
  const gateway = await startGateway({ clock: createFakeClock(Date.parse(START)) })
  const kids = async (headers: Record<string, string> = {}) => {
    const { body } = await gateway.call('GET', '/.well-known/aigw-keys.json', undefined, { key: null, headers })
    return parseKeySet(body).map(({ kid }) => kid)
  }
  const before = await kids()
  const { db } = gateway.app
  const other = await openSigningKeys(db, {
    masterKey: createMasterKey(TEST_MASTER_KEY),
    name: 'other',
    clock: createFakeClock(Date.parse('2026-05-01T00:00:01.000Z')),
  })
  const { kid } = await db.transaction().execute((tx) => other.rotate(tx))
  expect(await kids()).toEqual(before)
  expect(await kids({ 'cache-control': 'no-cache' })).toEqual([kid, ...before])
})

test('an address has a limit of proofs per minute, a proxy forwards the address, and the keys are always available', async () => {
  const clock = createFakeClock(Date.parse('2026-05-01T00:00:30.000Z'))
  const gateway = await startGateway({ clock, trustedProxies: ['127.0.0.1'] })
  const ask = (from: string, path = jsonOf('jti-nothing')) =>
    gateway.call('GET', path, undefined, { key: null, headers: { 'x-forwarded-for': from } })
  for (let count = 0; count < PUBLIC_PROOF_RATE.perMinute; count++) {
    expect((await ask(`2001:db8::${count}`)).status).toBe(404)
  }
  const refused = await ask('2001:db8::ffff')
  expect([refused.status, refused.body.error, refused.headers['retry-after']]).toEqual([
    429,
    'Rate limit exceeded',
    '30',
  ])
  const page = await ask('2001:db8::ffff', pageOf('jti-nothing'))
  expect([page.status, page.headers['retry-after']]).toEqual([429, '30'])
  expect((await ask('2001:db8:0:1::1')).status).toBe(404)
  const keys = await ask('2001:db8::1', '/.well-known/aigw-keys.json')
  expect([keys.status, keys.headers['cache-control']]).toEqual([200, 'public, max-age=300'])
  clock.advance(30_000)
  expect((await ask('2001:db8::1')).status).toBe(404)
})
