import { expect, test } from 'vitest'
import { EVIDENCE_EXPORT_MS } from '../../../../src/daemon/records/evidence/signing-routes.ts'
import { ChainCheck } from '../../../../src/shared/evidence/chain-check.ts'
import { payloadHash } from '../../../../src/shared/evidence/entry.ts'
import { type ExportedChain, exportRoot } from '../../../../src/shared/evidence/export-root.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { rootOfInclusion, treeRoot, verifyConsistency } from '../../../../src/shared/evidence/merkle.ts'
import { verifyNote } from '../../../../src/shared/evidence/note.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { isoTime } from '../../../../src/shared/time.ts'
import {
  CheckpointsResponse,
  ConsistencyProofResponse,
  InclusionProofResponse,
  ListChainsResponse,
  ListCommitsResponse,
  ReadChainResponse,
  RotateSigningKeyResponse,
  SignExportResponse,
} from '../../../../src/shared/wire/evidence.ts'
import { describeEachEngine } from '../../../engines.ts'
import { addEntries, changePayload, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { sharedGateway } from '../../../harness.ts'
import { recordedChanges } from '../../../recorded-changes.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/transparency'
const MANIFEST = 'cd'.repeat(32)
const bytes = (hex: string) => Buffer.from(hex, 'hex')
const rootOf = (leaves: readonly Buffer[]) => treeRoot(Buffer.concat(leaves)).toString('hex')

describeEachEngine('the log, for whoever verifies it elsewhere', (engine) => {
  const shared = sharedGateway({ engine })
  const keys = async () => parseKeySet((await shared.current.call('GET', '/.well-known/aigw-keys.json')).body)

  async function get(tenant: TestTenant, path: string) {
    const answer = await tenant.call('GET', `${BASE}/${path}`)
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  async function post(tenant: TestTenant, path: string, body: object) {
    const answer = await tenant.call('POST', `${BASE}/${path}`, body)
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }

  /** A chain of requests in two commits, and a change. */
  async function tenantWithLog() {
    const tenant = await addTestTenant(shared.current)
    const chain = newRequestChain()
    const entries = (count: number) => Array.from({ length: count }, () => ({ payload: requestPayload() }))
    const rows = [
      ...(await addEntries(tenant.db, tenant.id, chain, entries(5))),
      ...(await addEntries(tenant.db, tenant.id, chain, entries(4))),
    ]
    await addEntries(tenant.db, tenant.id, 'changes', [{ id: newId(), payload: changePayload() }])
    return { tenant, chain, rows, leaves: rows.map((row) => bytes(row.entry_hash)) }
  }

  test('can be verified from the rows, commits and checkpoints of the routes', async () => {
    const { tenant } = await tenantWithLog()
    await post(tenant, 'checkpoints', {})
    const { tenant_id, chains } = ListChainsResponse.strict().parse(await get(tenant, 'chains'))
    expect([tenant_id, chains.map(({ chain, size }) => [chain.split('-')[0], size])]).toEqual([
      tenant.id,
      [
        ['changes', 2],
        ['requests', 9],
      ],
    ])
    const trusted = await keys()
    for (const { chain, size, head, checkpoint } of chains) {
      const { checkpoints } = CheckpointsResponse.parse(await get(tenant, `checkpoints?chain=${chain}`))
      expect(checkpoints).toEqual([checkpoint])
      const check = new ChainCheck(tenant.id, chain, {
        keys: trusted,
        checkpoints: checkpoints.map(({ note }) => verifyNote(note, trusted)),
      })
      for (let from = 0; from < size; from += 2) {
        const page = ReadChainResponse.strict().parse(await get(tenant, `chains/${chain}/entries?from=${from}&limit=2`))
        const ids = [...new Set(page.entries.map(({ commit_id }) => commit_id))]
        const { commits } = ListCommitsResponse.parse(await get(tenant, `commits?ids=${ids.join(',')},unknown`))
        expect(commits.map(({ id }) => id).sort()).toEqual(ids.sort())
        for (const row of page.entries) {
          await check.add(
            { tenant_id, chain, ...row },
            commits.find(({ id }) => id === row.commit_id),
          )
        }
      }
      expect(await check.finish()).toMatchObject({ ok: true, size, head, checkpointsHeld: 1 })
    }
  })

  test('ends with an empty page, and a limit above the maximum is the maximum', async () => {
    const { tenant, chain } = await tenantWithLog()
    expect((await get(tenant, `chains/${chain}/entries?from=9`)).entries).toEqual([])
    expect((await get(tenant, `chains/${chain}/entries?limit=99999`)).entries).toHaveLength(9)
    for (const query of ['from=-1', 'limit=0', 'from=x']) {
      expect((await tenant.call('GET', `${BASE}/chains/${chain}/entries?${query}`)).status).toBe(400)
    }
    for (const unknown of [newRequestChain(), 'nonsense', '..%2Fchanges']) {
      const answer = await tenant.call('GET', `${BASE}/chains/${unknown}/entries`)
      expect([answer.status, answer.body.error.code]).toEqual([404, 'CHAIN_NOT_FOUND'])
    }
  })

  test('proves each of its entries, and that it only grew', async () => {
    const { tenant, chain, rows, leaves } = await tenantWithLog()
    for (const [index, size] of [
      [0, 1],
      [3, 7],
      [8, 9],
    ] as const) {
      const proof = InclusionProofResponse.strict().parse(
        await get(tenant, `proofs/inclusion?chain=${chain}&index=${index}&size=${size}`),
      )
      expect(proof.entry_hash).toBe(rows[index]?.entry_hash)
      expect(proof.root).toBe(rootOf(leaves.slice(0, size)))
      const root = rootOfInclusion(leaves[index] ?? bytes(''), index, size, proof.path.map(bytes))
      expect(root?.toString('hex')).toBe(proof.root)
    }
    const { path, from_root, to_root } = ConsistencyProofResponse.strict().parse(
      await get(tenant, `proofs/consistency?chain=${chain}&from=5&to=9`),
    )
    expect(from_root).toBe(rootOf(leaves.slice(0, 5)))
    const claim = { oldSize: 5, oldRoot: bytes(from_root), newSize: 9, newRoot: bytes(to_root), path: path.map(bytes) }
    expect(verifyConsistency(claim)).toBe(true)
  })

  test('has no proof for other entries', async () => {
    const { tenant, chain } = await tenantWithLog()
    for (const [field, path] of [
      ['size', `inclusion?chain=${chain}&index=0&size=10`],
      ['index', `inclusion?chain=${chain}&index=5&size=5`],
      ['to', `consistency?chain=${chain}&from=1&to=10`],
      ['from', `consistency?chain=${chain}&from=6&to=5`],
      ['chain', 'inclusion?chain=else&index=0&size=1'],
      ['chain', 'inclusion?index=0&size=1'],
    ]) {
      const answer = await tenant.call('GET', `${BASE}/proofs/${path}`)
      expect([answer.status, answer.body.error.details?.field]).toEqual([400, field])
      expect(answer.body.error.message).not.toContain('Invalid input')
    }
    const answer = await tenant.call('GET', `${BASE}/proofs/inclusion?chain=${newRequestChain()}&index=0&size=1`)
    expect([answer.status, answer.body.error.code]).toEqual([404, 'CHAIN_NOT_FOUND'])
  })

  test('with missing entries is rejected by its name', async () => {
    const { tenant, chain } = await tenantWithLog()
    await tenant.db.deleteFrom('evidence_entries').where('chain', '=', chain).where('seq', '=', 4).execute()
    for (const path of [
      `inclusion?chain=${chain}&index=4&size=9`,
      `inclusion?chain=${chain}&index=3&size=9`,
      `consistency?chain=${chain}&from=3&to=9`,
      `consistency?chain=${chain}&from=9&to=9`,
    ]) {
      const answer = await tenant.call('GET', `${BASE}/proofs/${path}`)
      expect([path, answer.status, answer.body.error.code]).toEqual([path, 409, 'EVIDENCE_MISMATCH'])
      expect(answer.body.error.message).toContain(chain)
    }
  })

  test('with an invalid hash is rejected by its name', async () => {
    const { tenant, chain, rows } = await tenantWithLog()
    const [third, fourth] = [rows[3]?.entry_hash ?? '', rows[4]?.entry_hash ?? '']
    const setHash = (seq: number, entry_hash: string) =>
      tenant.db.updateTable('evidence_entries').set({ entry_hash }).where('chain', '=', chain).where('seq', '=', seq)
    for (const [three, four] of [
      [third, fourth.slice(1)],
      [third, `${fourth}00`],
      [third.slice(0, -2), `${third.slice(-2)}${fourth}`],
      [third, 'z'.repeat(64)],
    ] as const) {
      await setHash(3, three).execute()
      await setHash(4, four).execute()
      for (const path of [`inclusion?chain=${chain}&index=4&size=9`, `consistency?chain=${chain}&from=3&to=9`]) {
        const answer = await tenant.call('GET', `${BASE}/proofs/${path}`)
        expect([path, answer.status, answer.body.error?.code]).toEqual([path, 409, 'EVIDENCE_MISMATCH'])
      }
    }
  })

  test('gets checkpoints on demand, of all chains or of one, and lists them in order', async () => {
    const { tenant, chain } = await tenantWithLog()
    const made = CheckpointsResponse.strict().parse(await post(tenant, 'checkpoints', {})).checkpoints
    expect(made.map((one) => [one.chain, one.tree_size])).toEqual([
      // It already contains the request itself.
      ['changes', 2],
      [chain, 9],
    ])
    await addEntries(tenant.db, tenant.id, chain, [{ payload: requestPayload() }])
    expect(await post(tenant, 'checkpoints', { chain })).toMatchObject({ checkpoints: [{ chain, tree_size: 10 }] })
    const sizes = async (query: string) =>
      CheckpointsResponse.parse(await get(tenant, `checkpoints${query}`)).checkpoints.map((one) => one.tree_size)
    expect(await sizes('')).toEqual([2, 10])
    expect(await sizes(`?chain=${chain}`)).toEqual([9, 10])
    expect(await sizes(`?chain=${chain}&limit=1`)).toEqual([9])
    expect(await sizes(`?chain=${chain}&from=9`)).toEqual([10])
    const noChain = await tenant.call('POST', `${BASE}/checkpoints`, { chain: 5 })
    expect(noChain.body.error).toMatchObject({ message: expect.stringContaining('chain must be the name of a chain') })
    const unknown = await tenant.call('POST', `${BASE}/checkpoints`, { chain: newRequestChain() })
    expect([unknown.status, unknown.body.error.code]).toEqual([404, 'CHAIN_NOT_FOUND'])
  })

  test('with only checkpoints left, or fewer entries than they cover, gets no more of them and is degraded', async () => {
    const { tenant, chain, rows } = await tenantWithLog()
    await post(tenant, 'checkpoints', {})
    for (const { seq } of rows.slice(-1).concat(rows.slice(0, 1))) {
      await tenant.db.deleteFrom('evidence_entries').where('chain', '=', chain).where('seq', '>=', seq).execute()
      expect((await get(tenant, 'status')).status).toBe('degraded')
      for (const body of [{}, { chain }]) {
        const answer = await tenant.call('POST', `${BASE}/checkpoints`, body)
        expect([answer.status, answer.body.error?.code]).toEqual([409, 'EVIDENCE_MISMATCH'])
        expect(answer.body.error.message).toContain(chain)
        expect(answer.body.error.message).not.toContain('changes')
      }
    }
    expect((await get(tenant, 'chains')).chains).toContainEqual(expect.objectContaining({ chain, size: 0 }))
    const answer = await tenant.call('GET', `${BASE}/chains/${chain}/entries`)
    expect([answer.status, answer.body.error.code]).toEqual([409, 'EVIDENCE_MISMATCH'])
    // The other chains have theirs.
    const { checkpoints } = await get(tenant, 'checkpoints?chain=changes')
    expect(checkpoints.map((one: { tree_size: number }) => one.tree_size)).toEqual([2, 3, 5])
  })

  test('an export is signed exactly when it matches the store', async () => {
    const { tenant, chain, rows, leaves } = await tenantWithLog()
    const held = { chain, size: 6, head: rows[5]?.entry_hash ?? '', root: rootOf(leaves.slice(0, 6)) }
    const request = { chains: [held], manifest_sha256: MANIFEST, row_count: 6 }
    const signed = SignExportResponse.strict().parse(await post(tenant, 'exports/sign', request))
    expect(verifyNote(signed.note, await keys())).toMatchObject({
      origin: `${signed.name}/exports/${payloadHash(signed.statement)}`,
      size: 6,
      root: exportRoot([held]).toString('base64'),
    })
    expect(signed.note).toContain(signed.origin)
    const [entry] = (await recordedChanges(tenant.db, tenant.id)).slice(-1)
    expect(entry).toMatchObject({ type: 'evidence_management', operation: 'export', resource_id: MANIFEST })

    const stranger = await addTestTenant(shared.current)
    const before = await recordedChanges(tenant.db, tenant.id)
    for (const [call, wrong] of [
      [tenant.call, { ...held, head: MANIFEST }],
      [tenant.call, { ...held, root: MANIFEST }],
      [tenant.call, { ...held, size: 10 }],
      [stranger.call, held],
    ] as const) {
      const answer = await call('POST', `${BASE}/exports/sign`, { ...request, chains: [wrong], row_count: wrong.size })
      expect([answer.status, answer.body.error.code]).toEqual([409, 'EVIDENCE_MISMATCH'])
    }
    for (const [field, wrong] of [
      ['row_count', { ...request, row_count: 7 }],
      ['chains', { ...request, chains: [held, held], row_count: 12 }],
      ['manifest_sha256', { ...request, manifest_sha256: MANIFEST.toUpperCase() }],
    ] as const) {
      const answer = await tenant.call('POST', `${BASE}/exports/sign`, wrong)
      expect([answer.status, answer.body.error.details.field]).toEqual([400, field])
    }
    expect(await recordedChanges(tenant.db, tenant.id)).toEqual(before)
  })

  test("what is signed states the store's own counts, whatever the caller sends", async () => {
    const { tenant, chain, rows, leaves } = await tenantWithLog()
    const expunge = (seqs: number[]) =>
      tenant.db
        .updateTable('evidence_entries')
        .set({ payload: null })
        .where('tenant_id', '=', tenant.id)
        .where('chain', '=', chain)
        .where('seq', 'in', seqs)
        .execute()
    await expunge([1, 4, 7])
    await post(tenant, 'checkpoints', { chain })
    const further = await addEntries(tenant.db, tenant.id, chain, [{ payload: requestPayload() }])
    const all = [...leaves, ...further.map((row) => bytes(row.entry_hash))]
    const requestOf = (size: number) => {
      const held = {
        chain,
        size,
        head: [...rows, ...further][size - 1]?.entry_hash ?? '',
        root: rootOf(all.slice(0, size)),
      }
      return { chains: [held], manifest_sha256: MANIFEST, row_count: size }
    }
    const sign = async (size: number) => JSON.parse((await post(tenant, 'exports/sign', requestOf(size))).statement)
    const lines = (...texts: string[]) => payloadHash(texts.map((text) => `${text}\n`).join(''))
    const root = Buffer.from(rootOf(leaves), 'hex').toString('base64')
    const ofSix = {
      ...{ chain, entries: 10, size: 6, expunged: 2, expunged_sha256: lines('1', '4') },
      ...{ checkpoints: 0, checkpoints_sha256: lines() },
    }
    const first = await sign(6)
    expect(first).toEqual({
      version: 1,
      signed_at: expect.stringMatching(/^20.+Z$/),
      tenant_id: tenant.id,
      manifest_sha256: MANIFEST,
      chains: [{ ...ofSix, chain: 'changes', entries: 2, size: 0, expunged: 0, expunged_sha256: lines() }, ofSix],
    })
    expect(Math.abs(Date.parse(first.signed_at) - Date.now())).toBeLessThan(60_000)
    // A caller cannot state the counts itself.
    for (const claimed of [{ expunged: 6 }, { entries: 6 }, { checkpoints: 4 }, { signed_at: '' }, { statement: '' }]) {
      const { chains, ...request } = requestOf(6)
      const inChain = chains.map((held) => ({ ...held, ...claimed }))
      for (const body of [
        { ...request, chains, ...claimed },
        { ...request, chains: inChain },
      ]) {
        const answer = await tenant.call('POST', `${BASE}/exports/sign`, body)
        expect([answer.status, answer.body.error.code]).toEqual([400, 'VALIDATION_ERROR'])
      }
    }
    // The checkpoint of nine entries belongs to the statement as soon as the export has more entries.
    expect((await sign(9)).chains[1]).toMatchObject({ expunged: 3, checkpoints: 0 })
    expect((await sign(10)).chains[1]).toEqual({
      ...{ chain, entries: 10, size: 10, expunged: 3, expunged_sha256: lines('1', '4', '7') },
      ...{ checkpoints: 1, checkpoints_sha256: lines(`9 ${root}`) },
    })
  })

  test('an export is signed only if it contains all entries older than an hour', async () => {
    const tenant = await addTestTenant(shared.current)
    const chains = [newRequestChain(), newRequestChain()].sort()
    const exported = []
    for (const chain of chains) {
      const entry = { payload: requestPayload(), createdAt: isoTime(Date.now() - 2 * EVIDENCE_EXPORT_MS) }
      const rows = await addEntries(tenant.db, tenant.id, chain, [entry, entry, entry])
      // Written during the export.
      await addEntries(tenant.db, tenant.id, chain, [{ payload: requestPayload() }])
      exported.push((size: number) => ({
        ...{ chain, size },
        head: rows[size - 1]?.entry_hash ?? '',
        root: rootOf(rows.slice(0, size).map((row) => bytes(row.entry_hash))),
      }))
    }
    const [one, two] = exported as [(size: number) => ExportedChain, (size: number) => ExportedChain]
    const sign = (...held: ExportedChain[]) => {
      const row_count = held.reduce((sum, { size }) => sum + size, 0)
      return tenant.call('POST', `${BASE}/exports/sign`, { chains: held, manifest_sha256: MANIFEST, row_count })
    }
    for (const [lacking, held] of [
      [chains[0], []],
      [chains[1], [one(3)]],
      [chains[0], [two(3)]],
      [chains[1], [one(3), two(2)]],
    ] as const) {
      const { status, body } = await sign(...held)
      expect([status, body.error?.code, body.error?.message.includes(lacking)]).toEqual([
        409,
        'EVIDENCE_MISMATCH',
        true,
      ])
    }
    expect((await sign(one(3), two(3))).status).toBe(200)

    const made = await tenant.call('POST', `${BASE}/checkpoints`, { chain: chains[1] })
    expect(made.body.checkpoints).toMatchObject([{ chain: chains[1], tree_size: 4 }])
    await tenant.db
      .deleteFrom('evidence_entries')
      .where('chain', '=', chains[1] ?? '')
      .where('seq', '=', 3)
      .execute()
    const cut = await sign(one(3), two(3))
    expect([cut.status, cut.body.error.code]).toEqual([409, 'EVIDENCE_MISMATCH'])
    expect(cut.body.error.message).toContain(`3 entries of the chain "${chains[1]}", but its checkpoint covers 4`)
  })

  test('an export of a log with missing entries is rejected', async () => {
    const { tenant, chain, rows, leaves } = await tenantWithLog()
    await tenant.db.deleteFrom('evidence_entries').where('chain', '=', chain).where('seq', '=', 4).execute()
    const held = { chain, size: 9, head: rows[8]?.entry_hash, root: rootOf(leaves) }
    const request = { chains: [held], manifest_sha256: MANIFEST, row_count: 9 }
    const { status, body } = await tenant.call('POST', `${BASE}/exports/sign`, request)
    expect([status, body.error.code]).toEqual([409, 'EVIDENCE_MISMATCH'])
  })

  test('a tenant without a log has an empty signed export', async () => {
    const tenant = await addTestTenant(shared.current)
    const request = { chains: [], manifest_sha256: MANIFEST, row_count: 0 }
    expect(await post(tenant, 'exports/sign', request)).toMatchObject({ kid: (await keys())[0]?.kid })
  })

  test('the operator can rotate the key, which stays published; administrators cannot', async () => {
    const { tenant, chain, rows } = await tenantWithLog()
    const refused = await tenant.call('POST', `${BASE}/keys/rotate`)
    expect(refused.status).toBe(403)
    const before = await keys()
    const answer = await shared.current.call('POST', `${BASE}/keys/rotate`)
    const { key } = RotateSigningKeyResponse.strict().parse(answer.body)
    expect(before.map(({ kid }) => kid)).not.toContain(key.kid)
    expect((await keys()).map(({ kid }) => kid)).toEqual([key.kid, ...before.map(({ kid }) => kid)])
    const made = await post(tenant, 'checkpoints', { chain })
    expect(made.checkpoints[0].kid).toBe(key.kid)
    const proof = await shared.current.call('GET', `/api/public/verify/${rows[0]?.id}`, undefined, { key: null })
    expect(proof.body).toMatchObject({
      layer2: { state: 'verified', kid: before[0]?.kid },
      layer3: { state: 'anchored' },
    })
    const entry = (await recordedChanges(tenant.db)).find(({ resource_id }) => resource_id === key.kid)
    expect(entry).toMatchObject({ type: 'evidence_management', operation: 'rotate', resource_type: 'signing_key' })
  })
})
