import { afterEach, beforeEach, expect, test } from 'vitest'
import { type BundleOptions, type ReceiptBundle, verifyBundle } from '../../../../src/shared/evidence/bundle.ts'
import { ALWAYS } from '../../../../src/shared/evidence/cosignature.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { parseWitnessPolicy } from '../../../../src/shared/evidence/witness-policy.ts'
import { ShowReceiptBundleResponse } from '../../../../src/shared/wire/evidence.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { startWitness, type TestWitness } from '../../../witness.ts'

describeEachEngine('the bundle of a receipt', (engine) => {
  let gateway: Gateway
  let witnesses: TestWitness[]

  beforeEach(async () => {
    witnesses = [await startWitness('witness.example.com/w1'), await startWitness('witness.example.com/w2')]
    gateway = await startGateway({
      engine,
      evidence: {
        witnesses: witnesses.map(({ url, vkey }, at) => ({
          name: `w${at}`,
          url,
          key: vkey,
          window: ALWAYS,
        })),
      },
    })
    const keys = await keySet()
    for (const witness of witnesses) witness.trusts = async () => keys
  })
  afterEach(() => Promise.all(witnesses.map((witness) => witness.close())))

  const keySet = async () =>
    parseKeySet((await gateway.call('GET', '/.well-known/aigw-keys.json', undefined, { key: null })).body)
  const policyOf = (count: number) =>
    parseWitnessPolicy(
      `${witnesses.map(({ vkey }, at) => `witness w${at} ${vkey}\n`).join('')}group g ${count} w0 w1\nquorum g\n`,
    )
  const options = async (count: number, changed: Partial<BundleOptions> = {}): Promise<BundleOptions> => ({
    keys: await keySet(),
    policy: policyOf(count),
    nowMs: Date.now(),
    ...changed,
  })

  async function recorded(): Promise<string> {
    const { body } = await gateway.chat({ messages: [{ role: 'user', content: 'Hello' }] })
    return body.metadata.smltp.bundle_id
  }
  const bundleOf = (id: string) => gateway.call('GET', `/api/external/receipts/${id}/bundle`)

  /** Requests checkpoints, and waits until both witnesses have cosigned all of them. */
  async function anchored(id: string): Promise<ReceiptBundle> {
    const made = await gateway.call('POST', '/api/external/transparency/checkpoints', {})
    const sizes = made.body.checkpoints.length
    expect(made.status).toBe(200)
    await expect
      .poll(async () => (await gateway.app.db.selectFrom('evidence_cosignatures').selectAll().execute()).length, {
        timeout: 10_000,
      })
      .toBe(2 * sizes)
    const answer = await bundleOf(id)
    expect(answer.status, answer.text).toBe(200)
    return ShowReceiptBundleResponse.parse(answer.body).bundle
  }

  test('proves that a cosigned checkpoint covers the request', async () => {
    const id = await recorded()
    const pending = await bundleOf(id)
    expect([pending.status, pending.body.error]).toEqual([409, 'Receipt pending'])
    const bundle = await anchored(id)
    expect(verifyBundle(bundle, await options(2))).toMatchObject({ ok: true, cosigners: ['w0', 'w1'] })
    // One cosignature less satisfies "1 of these", but not "2 of these".
    const cut = { ...bundle, tlog_proof: `${bundle.tlog_proof.split('\n').slice(0, -2).join('\n')}\n` }
    expect(verifyBundle(cut, await options(1))).toMatchObject({ ok: true, cosigners: ['w0'] })
    expect(verifyBundle(cut, await options(2))).toMatchObject({ ok: false })
    expect((await bundleOf('jti-nothing')).status).toBe(404)
  })

  test('is invalid in every changed part', async () => {
    const id = await recorded()
    const other = await recorded()
    const bundle = await anchored(id)
    const proof = bundle.tlog_proof
    const entry = Reflect.get(bundle.receipt, 'entry')
    const wrong: [string, ReceiptBundle, Partial<BundleOptions>?][] = [
      ['receipt', { ...bundle, receipt: { ...bundle.receipt, status: 201 } }],
      [
        'of another request',
        { ...bundle, tlog_proof: ShowReceiptBundleResponse.parse((await bundleOf(other)).body).bundle.tlog_proof },
      ],
      ['index', { ...bundle, tlog_proof: proof.replace(/^index .*$/m, `index ${entry.seq + 1}`) }],
      ['origin', { ...bundle, tlog_proof: proof.replace('/logs/', '/logs/0') }],
      ['no proof', { ...bundle, tlog_proof: '' }],
      ['keys', bundle, { keys: [] }],
      [
        'key that was retired before the entry',
        bundle,
        {
          keys: (await keySet()).map((key) => ({
            ...key,
            createdAt: '2020-01-01T00:00:00.000Z',
            retiredAt: '2020-01-02T00:00:00.000Z',
          })),
        },
      ],
      ['future', bundle, { nowMs: Date.now() - 600_000 }],
    ]
    for (const [part, changed, given] of wrong)
      expect([part, verifyBundle(changed, await options(2, given))]).toMatchObject([part, { ok: false }])
  })

  test('is shown like the receipt: to the owner of the key and to administrators', async () => {
    const id = await recorded()
    await anchored(id)
    expect((await gateway.call('GET', `/api/external/receipts/${id}/bundle`, undefined, { key: null })).status).toBe(
      401,
    )
    const list = await gateway.call('GET', '/api/external/transparency/checkpoints')
    for (const { note } of list.body.checkpoints) expect(note.match(/^— witness\.example\.com\/w\d /gm)).toHaveLength(2)
    const shown = await gateway.call('GET', `/api/public/verify/${id}`, undefined, { key: null })
    expect(shown.body.layer3.note.match(/^— witness/gm)).toHaveLength(2)
  })
})
