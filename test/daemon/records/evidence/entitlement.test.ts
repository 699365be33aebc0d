import { hash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  type Entitlement,
  type EntitlementTerms,
  entitle,
} from '../../../../src/daemon/records/evidence/entitlement.ts'
import { ENTITLEMENT_SECONDS } from '../../../../src/shared/spec-limits.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const BODY = '{"model":"m","messages":[]}'

/** An entitlement for BODY and the model `m`; `send` returns the result of its use. */
function minted(given: Partial<EntitlementTerms> = {}, model = 'm') {
  const clock = createFakeClock()
  const all: Entitlement[] = []
  const terms = { jti: 'jti-1/0', keyId: 'k', modelId: 'p/m', model: 'm', policyHash: 'f'.repeat(64), enforced: true }
  const entitled = entitle({ ...terms, isAccepted: () => true, ...given }, clock, (one) => all.push(one))(model, BODY)
  const [entitlement] = all as [Entitlement]
  async function send(sentModel = 'm', body = BODY): Promise<string> {
    try {
      await entitled(sentModel, body)
      return 'sent'
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENTITLEMENT_REFUSED', extra: { reason: entitlement.verdict } })
      return 'refused'
    }
  }
  return { clock, entitlement, send }
}

test('an entitlement contains the key, the model, the policy, the body hash and its expiry', () => {
  const { entitlement, clock } = minted()
  const iat = Math.floor(clock.now() / 1000)
  expect(entitlement).toEqual({
    ...{ jti: 'jti-1/0', sub: 'k', iat, exp: iat + ENTITLEMENT_SECONDS, model: 'p/m', policyHash: 'f'.repeat(64) },
    ...{ bodySha256: hash('sha256', BODY, 'hex'), verdict: 'unused' },
  })
})

describe('a call is sent', () => {
  test('once, with the entitled body', async () => {
    const { send, entitlement } = minted()
    expect([await send(), entitlement.verdict]).toEqual(['sent', 'allowed'])
    expect([await send(), entitlement.verdict]).toEqual(['refused', 'replayed'])
  })

  test('until the entitlement expires', async () => {
    const inTime = minted()
    inTime.clock.advance(ENTITLEMENT_SECONDS * 1000 - 1)
    expect(await inTime.send()).toBe('sent')
    const late = minted()
    late.clock.advance(ENTITLEMENT_SECONDS * 1000)
    expect([await late.send(), late.entitlement.verdict]).toEqual(['refused', 'expired'])
  })

  test('only to the entitled model', async () => {
    const other = minted()
    expect([await other.send('n'), other.entitlement.verdict]).toEqual(['refused', 'model_mismatch'])
    const wrong = minted({}, 'n')
    expect([await wrong.send('m'), wrong.entitlement.verdict]).toEqual(['refused', 'model_mismatch'])
  })

  test('only with identical bytes', async () => {
    const { send, entitlement } = minted()
    expect([await send('m', `${BODY} `), entitlement.verdict]).toEqual(['refused', 'body_mismatch'])
  })

  test('not for a key that was revoked meanwhile, whether cached or looked up', async () => {
    for (const isAccepted of [() => false, () => Promise.resolve(false)]) {
      const { send, entitlement } = minted({ isAccepted })
      expect([await send(), entitlement.verdict]).toEqual(['refused', 'revoked'])
    }
  })

  test('only once, also while the key is looked up', async () => {
    const { send } = minted({ isAccepted: () => Promise.resolve(true) })
    expect((await Promise.all([send(), send()])).sort()).toEqual(['refused', 'sent'])
  })

  test('not while the key cannot be checked, and that is not reported as a revocation', async () => {
    const terms = { jti: 'j', keyId: 'k', modelId: 'p/m', model: 'm', policyHash: 'f', enforced: false }
    const isAccepted = () => Promise.reject(new Error('the store is gone'))
    const all: Entitlement[] = []
    const entitled = entitle({ ...terms, isAccepted }, createFakeClock(), (one) => all.push(one))('m', BODY)
    await expect(entitled('m', BODY)).rejects.toThrow('the store is gone')
    expect(all.map(({ verdict }) => verdict)).toEqual(['unchecked'])
  })

  test('despite any violation in monitor mode; the verdict names it', async () => {
    const { send, entitlement, clock } = minted({ enforced: false })
    clock.advance(ENTITLEMENT_SECONDS * 1000)
    expect([await send(), entitlement.verdict]).toEqual(['sent', 'expired'])
  })
})
