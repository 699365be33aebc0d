import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  createMasterKey,
  openSecret,
  SealBrokenError,
  type SealedLocation,
  sealSecret,
} from '../../../../src/daemon/platform/secrets/seal.ts'

const KEY = createMasterKey('0af1'.repeat(16))
const PLACE: SealedLocation = { purpose: 'webhook-signing', table: 'webhook_endpoints', row: 'r1', tenant: 't1' }

describe('a sealed secret', () => {
  test('decrypts to the same text, and two seals of it differ', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const [one, other] = [sealSecret(KEY, PLACE, text), sealSecret(KEY, PLACE, text)]
        expect(one).not.toBe(other)
        expect([openSecret(KEY, PLACE, one), openSecret(KEY, PLACE, other)]).toEqual([text, text])
      }),
    )
  })

  test.each<[string, Partial<SealedLocation>]>([
    ['purpose', { purpose: 'check' }],
    ['table', { table: 'other' }],
    ['row', { row: 'r2' }],
    ['tenant', { tenant: 't2' }],
  ])('cannot be decrypted for another %s', (_, other) => {
    const sealed = sealSecret(KEY, PLACE, 'whsec_secret')
    expect(() => openSecret(KEY, { ...PLACE, ...other }, sealed)).toThrow(SealBrokenError)
  })

  test('cannot be decrypted with another master key', () => {
    const sealed = sealSecret(KEY, PLACE, 'whsec_secret')
    expect(() => openSecret(createMasterKey('0af2'.repeat(16)), PLACE, sealed)).toThrow(SealBrokenError)
  })

  test('cannot be decrypted when any bit was changed, or when it was truncated', () => {
    const sealed = sealSecret(KEY, PLACE, 'whsec_secret')
    const bytes = Buffer.from(sealed.slice(3), 'base64url')
    fc.assert(
      fc.property(fc.nat({ max: bytes.length * 8 - 1 }), (bit) => {
        const changed = Buffer.from(bytes)
        changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
        expect(() => openSecret(KEY, PLACE, `v1.${changed.toString('base64url')}`)).toThrow(SealBrokenError)
      }),
    )
    fc.assert(
      fc.property(fc.nat({ max: sealed.length - 2 }), (length) => {
        expect(() => openSecret(KEY, PLACE, sealed.slice(0, length))).toThrow(SealBrokenError)
      }),
    )
  })

  test('is identified only by its location when it cannot be decrypted', () => {
    const failure = (() => {
      try {
        return openSecret(KEY, PLACE, 'whsec_in-plain-text')
      } catch (error) {
        return String(error)
      }
    })()
    expect(failure).toContain('webhook_endpoints r1')
    expect(failure).not.toContain('whsec')
  })

  test('a master key never shows its bytes', () => {
    KEY.sealingKey('check')
    expect(JSON.stringify(KEY) + String(KEY)).not.toContain('0af1')
  })
})
