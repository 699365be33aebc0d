import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSignedBy, KeySetError, keyIdOf, parseKeySet, toKeySet } from '../../../src/shared/evidence/keys.ts'
import { chainOrigin, noteKeyHash, parseCheckpoint, verifyNote } from '../../../src/shared/evidence/note.ts'
import { testNote, testSigner } from './signer.ts'

const signer = testSigner('aigw-test')
const other = testSigner('aigw-test')
const KEYS = [signer.published]
const ROOT = Buffer.alloc(32, 7).toString('base64')
const note = testNote('aigw-test/logs/1', 12, ROOT, signer)

describe('published examples', () => {
  test('the key of RFC 8037 has its thumbprint, and signs as in RFC 8032', () => {
    const { published, sign } = testSigner('rfc', '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60')
    expect(published.publicKey.toString('base64url')).toBe('11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo')
    expect(keyIdOf(published.publicKey)).toBe('kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
    expect(sign('').toString('hex')).toMatch(/^e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065/)
    expect(isSignedBy(published, '', sign(''))).toBe(true)
  })

  // The example of the signed note format: the name PeterNeumann, its key, and its signature.
  test('the key of the signed note format has its key hash, and its signature is valid', () => {
    const vkey = Buffer.from('ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW', 'base64')
    const key = { kid: '', name: 'PeterNeumann', publicKey: vkey.subarray(1), createdAt: '', retiredAt: null }
    const line = Buffer.from(
      'x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=',
      'base64',
    )
    const text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    expect(noteKeyHash(key.name, key.publicKey).toString('hex')).toBe('c74f20a3')
    expect(line.subarray(0, 4).toString('hex')).toBe('c74f20a3')
    expect(isSignedBy(key, text, line.subarray(4))).toBe(true)
  })
})

describe('a checkpoint', () => {
  test('is read from its note as it was written', () => {
    const origin = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !/[\n\r]/.test(text))
    const root = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('base64'))
    fc.assert(
      fc.property(origin, fc.maxSafeNat(), root, (origin, size, root) => {
        expect(verifyNote(testNote(origin, size, root, signer), KEYS)).toEqual({
          ...{ origin, size, root },
          key: signer.published,
        })
      }),
      { numRuns: 100 },
    )
  })

  test('is rejected when any byte of its note is changed', () => {
    const bytes = Buffer.from(note)
    for (let at = 0; at < bytes.length; at += 1) {
      const broken = Buffer.from(bytes)
      broken[at]! ^= 1 << (at % 7)
      expect(() => verifyNote(broken.toString(), KEYS), `byte ${at}`).toThrow()
    }
  })

  test('needs the signature of a trusted key, whatever other signatures it has', () => {
    const extra = (signed: string) => signed.split('\n\n')[1]!
    const foreign = testNote('aigw-test/logs/1', 12, ROOT, other)
    expect(() => verifyNote(foreign, KEYS)).toThrow('no trusted key')
    expect(verifyNote(note + extra(foreign), KEYS).size).toBe(12)
    expect(verifyNote(foreign + extra(note), KEYS).size).toBe(12)
    expect(() => verifyNote(note + extra(testNote('aigw-test/logs/1', 13, ROOT, signer)), KEYS)).toThrow('is wrong')
    expect(() => verifyNote(foreign + extra(note).repeat(100), KEYS)).toThrow('more than 100')
  })

  test.each<[string, string]>([
    ['no text', ''],
    ['no signature', `o\n1\n${ROOT}\n`],
    ['a size with a leading zero', signed('o', '01', ROOT)],
    ['a size beyond 2^53', signed('o', '9007199254740993', ROOT)],
    ['a negative size', signed('o', '-1', ROOT)],
    ['no origin', signed('', '1', ROOT)],
    ['a short root', signed('o', '1', 'AAAA')],
    ['a root in base64url', signed('o', '1', Buffer.alloc(32, 255).toString('base64url'))],
    ['a root that is not canonical', signed('o', '1', `${'A'.repeat(42)}B=`)],
    ['no newline at its end', note.slice(0, -1)],
    ['a hyphen for the dash', note.replace('— ', '- ')],
    ['two spaces in its signature line', note.replace('— aigw-test ', '— aigw-test  ')],
  ])('is invalid with %s', (_what, text) => {
    expect(() => parseCheckpoint(text)).toThrow(expect.objectContaining({ name: 'NoteError' }))
  })

  test('reveals nothing about the tenant', () => {
    expect(chainOrigin('aigw-test', 'tenant', 'changes')).toMatch(/^aigw-test\/logs\/[0-9a-f]{32}$/)
  })
})

function signed(origin: string, size: string, root: string): string {
  // A note may contain any text; only its checkpoint is wrong.
  return testNote(origin, 0, root, signer).replace(`${origin}\n0\n`, `${origin}\n${size}\n`)
}

describe('a key set', () => {
  const retired = { ...other.published, name: 'old', retiredAt: '2026-02-01T00:00:00.000Z' }

  test('is read as it was published', () => {
    const json = JSON.parse(JSON.stringify(toKeySet([signer.published, retired])))
    expect(parseKeySet(json)).toEqual([signer.published, retired])
    expect(json.keys).toMatchObject([{ status: 'active', retired_at: null }, { status: 'retired' }])
  })

  test.each<[string, object]>([
    ['another kid', { kid: other.published.kid }],
    ['another key', { x: other.published.publicKey.toString('base64url') }],
    ['a short key', { x: 'AAAA' }],
    ['another curve', { crv: 'X25519' }],
    ['a name with a space', { name: 'a b' }],
    ['no name', { name: '' }],
    ['no time', { created_at: undefined }],
  ])('is rejected with %s', (_what, change) => {
    const [key] = toKeySet([signer.published]).keys
    expect(() => parseKeySet({ keys: [{ ...key, ...change }] })).toThrow(KeySetError)
  })

  test.each([null, [], {}, { keys: {} }, { keys: [null] }, 'x'])('cannot be %j', (json) => {
    expect(() => parseKeySet(json)).toThrow(KeySetError)
  })
})
