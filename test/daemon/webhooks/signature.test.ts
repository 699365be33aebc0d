import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sign } from '../../../src/shared/webhook-signature.ts'
import { verifyWebhook, WebhookVerificationError } from '../../../src/webhooks.ts'
import { signatureVectors } from './signature-vectors.ts'

const SECRET = `whsec_${'0123456789abcdef'.repeat(4)}`
const EVENT = { id: 'evt_1', type: 'dlp:incident', created: 1, data: { incidentId: 'i1' } }
const BODY = Buffer.from(JSON.stringify(EVENT))
const NOW = 1_767_225_600

const faultOf = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    if (error instanceof WebhookVerificationError) return error.code
    throw error
  }
  return 'none'
}

describe('verifyWebhook', () => {
  test.each(signatureVectors().map((vector) => [vector.id, vector.title, vector] as const))(
    'matches vector %s: %s',
    (_, __, { body, header, secrets, now, tolerance, expect: expected, reason }) => {
      const fault = faultOf(() => verifyWebhook(body, header, secrets, { now, toleranceSeconds: tolerance }))
      if (expected === 'valid') expect(fault).toBe('none')
      else expect(fault).toEqual(reason ?? expect.not.stringMatching('none'))
    },
  )

  test.each([[[]], [['t=1,v1=00']], [[sign(BODY, [SECRET], NOW), sign(BODY, [SECRET], NOW)]], [{}], [42]])(
    'rejects a header that is not one text: %j',
    (header) => {
      expect(faultOf(() => verifyWebhook(BODY, header as string[], SECRET, { now: NOW }))).toBe('malformed_header')
    },
  )

  test('accepts every delivery that the gateway signs, on any bytes, with any of its secrets', () => {
    const secret = fc.string({ minLength: 1 }).map((text) => `whsec_${text}`)
    const secrets = fc.array(secret, { minLength: 1, maxLength: 3 })
    const anyTime = fc.nat({ max: 4_000_000_000 })
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), secrets, anyTime, fc.nat(), (body, signing, t, which) => {
        const header = sign(body, signing, t)
        const known = signing[which % signing.length] as string
        expect(verifyWebhook(body, header, known, { now: t }).timestamp).toBe(t)
        expect(verifyWebhook(body, header, ['whsec_other', known], { now: t - 300 }).ageSeconds).toBe(-300)
      }),
    )
  })

  test('rejects every delivery with a changed bit', () => {
    const header = sign(BODY, [SECRET], NOW)
    fc.assert(
      fc.property(fc.nat({ max: BODY.length * 8 - 1 }), (bit) => {
        const changed = Buffer.from(BODY)
        changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
        expect(faultOf(() => verifyWebhook(changed, header, SECRET, { now: NOW }))).toBe('signature_mismatch')
      }),
    )
  })

  test('fails only with its own error, whatever the header is', () => {
    const piece = fc.constantFrom('t=', 'v1=', ',', '=', '1', 'a', ' ', '\0', 'é', String(NOW), 'f'.repeat(64))
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(piece).map((all) => all.join('')),
        ),
        (header) => {
          expect(faultOf(() => verifyWebhook(BODY, header, SECRET, { now: NOW }))).not.toBe('none')
        },
      ),
    )
  })

  test('fails with its own error for a repeated header, which some frameworks pass as a list', () => {
    const header = sign(BODY, [SECRET], NOW)
    for (const list of [[header], [header, header], []])
      expect(faultOf(() => verifyWebhook(BODY, list, SECRET, { now: NOW }))).toBe('malformed_header')
  })

  test('returns the event, typed by its `type`', () => {
    const { event } = verifyWebhook(BODY, sign(BODY, [SECRET], NOW), SECRET, { now: NOW })
    expect(event).toEqual(EVENT)
    expect(event.type === 'dlp:incident' && event.data.incidentId).toBe('i1')
  })

  test('accepts the body as a string too', () => {
    const header = sign(BODY, [SECRET], NOW)
    expect(verifyWebhook(BODY.toString(), header, SECRET, { now: NOW }).event).toEqual(EVENT)
  })

  test.each(['5', 'null', '[]', '{}', '{"id":1}', 'not JSON', '{"id":"a","type":"b","created":"c","data":{}}'])(
    'reports that %s is not an event when it is used as one',
    (body) => {
      const verified = verifyWebhook(body, sign(body, [SECRET], NOW), SECRET, { now: NOW })
      expect(faultOf(() => verified.event)).toBe('invalid_event')
    },
  )

  test.each([
    ['missing_secret', [''], sign(BODY, [''], NOW)],
    ['missing_secret', [], sign(BODY, [SECRET], NOW)],
    ['missing_secret', undefined, sign(BODY, [''], NOW)],
    ['missing_secret', [undefined], sign(BODY, [''], NOW)],
    ['missing_secret', [undefined], sign(BODY, ['undefined'], NOW)],
    ['malformed_header', [SECRET], undefined],
    ['signature_mismatch', ['whsec_other'], sign(BODY, [SECRET], NOW)],
    ['timestamp_outside_tolerance', [SECRET], sign(BODY, [SECRET], NOW - 400)],
  ])('names the failed check: %s', (code, secrets, header) => {
    expect(faultOf(() => verifyWebhook(BODY, header, secrets, { now: NOW }))).toBe(code)
  })

  test.each([{ now: Number.NaN }, { toleranceSeconds: Number.NaN }])(
    'rejects everything when a number is invalid: %o',
    (options) => {
      const header = sign(BODY, [SECRET], NOW)
      expect(faultOf(() => verifyWebhook(BODY, header, SECRET, { now: NOW, ...options }))).toBe(
        'timestamp_outside_tolerance',
      )
    },
  )

  test('states the age of a delivery, and never repeats the secret', () => {
    const verify = (t: number) => verifyWebhook(BODY, sign(BODY, [SECRET], t), SECRET, { now: NOW })
    expect(() => verify(NOW - 912)).toThrow('912 s old')
    expect(() => verify(NOW + 912)).toThrow('912 s ahead')
    expect(() => verifyWebhook(BODY, sign(BODY, ['x'], NOW), SECRET)).toThrow(/^((?!whsec_).)*$/s)
  })

  test('uses the system clock when no time is given', () => {
    const now = Math.floor(Date.now() / 1000)
    expect(faultOf(() => verifyWebhook(BODY, sign(BODY, [SECRET], now), SECRET))).toBe('none')
    expect(faultOf(() => verifyWebhook(BODY, sign(BODY, [SECRET], now - 3_600), SECRET))).toBe(
      'timestamp_outside_tolerance',
    )
  })
})
