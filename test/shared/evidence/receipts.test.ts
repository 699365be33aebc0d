import { hash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toCanonicalJson } from '../../../src/shared/canonical-json.ts'
import { entryHash, GENESIS_HASH, logId, netstrings, payloadHash } from '../../../src/shared/evidence/entry.ts'
import { exportOrigin, exportRoot } from '../../../src/shared/evidence/export-root.ts'
import { toReceipt, verifyReceipt } from '../../../src/shared/evidence/receipt.ts'
import { testCommit, testSigner } from './signer.ts'

const signer = testSigner('aigw-test')
const KEYS = [signer.published]
const PAYLOAD = {
  version: 1,
  kind: 'request',
  bundle_id: 'jti-1',
  usage: { input: 3 },
  cost: { nanos: 1.5 },
  note: 'é𝄞',
}

/** A receipt of one entry in a commit of this many. */
function receiptOf(payload: object, leafIndex = 2, size = 5) {
  const fields = { tenant_id: 't', chain: 'requests-1', seq: 7, id: 'jti-1', created_at: '2026-01-02T03:04:05.678Z' }
  const hashes = { prev_hash: 'ab'.repeat(32), payload_hash: payloadHash(toCanonicalJson(payload)) }
  const entry_hash = entryHash(fields, hashes.prev_hash, hashes.payload_hash)
  const leaves = Array.from({ length: size }, (_, at) =>
    at === leafIndex ? entry_hash : hash('sha256', String(at), 'hex'),
  )
  return toReceipt(
    payload,
    { ...fields, ...hashes, entry_hash, leaf_index: leafIndex },
    testCommit('c1', leaves, signer),
  )
}

/** A receipt as it is transmitted. */
const sent = (receipt: object): Record<string, unknown> => JSON.parse(JSON.stringify(receipt))

test('a receipt is valid for any position of its entry in a commit, and any order of its members', () => {
  for (let size = 1; size <= 9; size += 1) {
    for (let at = 0; at < size; at += 1) {
      const receipt = sent(receiptOf(PAYLOAD, at, size))
      expect(verifyReceipt(receipt, KEYS)).toEqual({ ok: true })
      expect(verifyReceipt(Object.fromEntries(Object.entries(receipt).reverse()), KEYS)).toEqual({ ok: true })
    }
  }
})

test('any JSON payload survives', () => {
  const payload = fc.dictionary(
    fc.string().filter((name) => !['entry', 'proof', 'alg', 'kid', 'signer', 'signature'].includes(name)),
    fc.jsonValue({ stringUnit: 'grapheme' }),
  )
  fc.assert(
    fc.property(payload, (payload) => {
      expect(verifyReceipt(sent(receiptOf(payload)), KEYS)).toEqual({ ok: true })
    }),
    { numRuns: 100 },
  )
})

test('a receipt with any changed, missing or added member is rejected', () => {
  const receipt = sent(receiptOf(PAYLOAD))
  const changes: [string, unknown][] = []
  const walk = (value: unknown, path: string, put: (changed: unknown) => unknown) => {
    if (typeof value === 'object' && value !== null) {
      for (const [name, inner] of Object.entries(value)) {
        walk(inner, `${path}/${name}`, (changed) => put(withMember(value, name, changed)))
        changes.push([`${path}/${name} missing`, put(withMember(value, name, undefined))])
      }
      changes.push([`${path} with one more`, put(withMember(value, 'more', 1))])
    } else if (typeof value === 'number') {
      changes.push([`${path} + 1`, put(value + 1)], [`${path} as text`, put(String(value))])
    } else if (typeof value === 'string') {
      for (let at = 0; at < value.length; at += 7) {
        changes.push([
          `${path} at ${at}`,
          put(value.slice(0, at) + (value[at] === 'a' ? 'b' : 'a') + value.slice(at + 1)),
        ])
      }
      changes.push([path, put(`${value}a`)], [path, put('')], [path, put(null)])
    }
  }
  walk(receipt, '', (changed) => changed)
  expect(changes.length).toBeGreaterThan(150)
  for (const [what, changed] of changes) {
    expect(verifyReceipt(JSON.parse(JSON.stringify(changed)), KEYS), what).toMatchObject({ ok: false })
  }
})

function withMember(value: object, name: string, changed: unknown): unknown {
  if (!Array.isArray(value)) return { ...value, [name]: changed }
  if (changed === undefined) return value.filter((_, at) => String(at) !== name)
  return name in value ? value.with(Number(name), changed) : [...value, changed]
}

test('a receipt of an untrusted key, or with another key name, is reported as such', () => {
  const other = testSigner('aigw-test')
  const receipt = sent(receiptOf(PAYLOAD))
  expect(verifyReceipt(receipt, [other.published])).toMatchObject({ problem: expect.stringContaining('not trusted') })
  expect(verifyReceipt(receipt, [{ ...signer.published, name: 'x' }])).toMatchObject({
    problem: 'it is signed as aigw-test with the key of x',
  })
})

test.each([undefined, null, 'x', [], {}, { entry: {} }])('%j is not a receipt', (value) => {
  expect(verifyReceipt(value, KEYS)).toMatchObject({ ok: false })
})

test('a lone surrogate differs from its replacement character', () => {
  const receipt = sent(receiptOf({ text: '\ufffd' }))
  expect(verifyReceipt({ ...receipt, text: '\ud800' }, KEYS)).toMatchObject({ problem: 'it has no canonical JSON' })
})

test('a payload cannot contain the members that a receipt adds', () => {
  for (const name of ['entry', 'proof', 'alg', 'kid', 'signer', 'signature']) {
    expect(() => receiptOf({ [name]: 1 })).toThrow(TypeError)
  }
})

test('different lists of texts have different bytes', () => {
  const list = fc.array(fc.string({ unit: fc.constantFrom('1', ':', ',', 'é', '0') }), { maxLength: 4 })
  fc.assert(
    fc.property(list, list, (a, b) => {
      expect(netstrings(a) === netstrings(b)).toBe(JSON.stringify(a) === JSON.stringify(b))
    }),
  )
  expect(netstrings(['a', '', 'é'])).toBe('1:a,0:,2:é,')
})

test('a log id depends on tenant and chain', () => {
  const ids = [logId('a', 'bc'), logId('ab', 'c'), logId('a', 'b'), logId('bc', 'a')]
  expect(new Set(ids).size).toBe(4)
  expect(ids.every((id) => /^[0-9a-f]{32}$/.test(id))).toBe(true)
})

test('the root of an export depends on every detail of every chain, and on their order', () => {
  const a = { chain: 'changes', size: 1, head: GENESIS_HASH, root: 'ab'.repeat(32) }
  const b = { ...a, chain: 'requests-1' }
  const roots = [
    [],
    [a],
    [a, b],
    [b, a],
    [{ ...a, size: 2 }],
    [{ ...a, head: a.root }],
    [{ ...a, root: GENESIS_HASH }],
    [{ ...a, chain: 'x' }],
  ].map((chains) => exportRoot(chains).toString('hex'))
  expect(new Set(roots).size).toBe(roots.length)
  expect(exportOrigin('aigw-test', GENESIS_HASH)).toBe(`aigw-test/exports/${GENESIS_HASH}`)
})
