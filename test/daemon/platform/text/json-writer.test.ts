import { hash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import { hashing, piecesOf, writingBody, writingJson } from '../../../../src/daemon/platform/text/json-writer.ts'

const string = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 60 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc
    .array(fc.constantFrom('\ud83d', '\ude00', '😀', '"', '\\', '\n', 'a'), { maxLength: 60 })
    .map((units) => units.join('')),
)
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'medium' },
    string,
    fc.constantFrom(null, true, 0, -0, 1.5e300, undefined),
    fc.array(tie('value')),
    fc.dictionary(fc.oneof(string, fc.constantFrom('__proto__', 'a', '1')), tie('value')),
  ),
}))

test('the pieces are the text of JSON.stringify, whatever their size', () => {
  fc.assert(
    fc.property(
      value.filter((one) => one !== undefined),
      fc.integer({ min: 1, max: 40 }),
      (one, pieceChars) => {
        expect([...writingJson(one, pieceChars)].join('')).toBe(JSON.stringify(one))
      },
    ),
    { numRuns: 2_000 },
  )
})

test('a large text, a large list and a deep value are written in many pieces', () => {
  const values = [
    ['text', 'a "quoted" 😀\n'.repeat(100_000)],
    ['list', Array.from({ length: 200_000 }, (_, at) => at)],
    [
      'nested',
      { tools: [{ function: { parameters: { enum: Array.from({ length: 200_000 }, (_, at) => `v${at}`) } } }] },
    ],
  ] as const
  for (const [name, one] of values) {
    const pieces = [...writingJson(one)]
    expect(pieces.join('') === JSON.stringify(one), name).toBe(true)
    expect(pieces.length, name).toBeGreaterThan(10)
    expect(Math.max(...pieces.map(({ length }) => length)), name).toBeLessThan(200_000)
  }
})

test('a large body has the length and the hash of its bytes', () => {
  const one = { messages: [{ role: 'user', content: 'größer 😀 '.repeat(50_000) }] }
  const { pieces, length, sha256 } = runToEnd(writingBody(one))
  const bytes = Buffer.from(JSON.stringify(one))
  expect(Buffer.concat(pieces).equals(bytes)).toBe(true)
  expect([length, sha256]).toEqual([bytes.length, hash('sha256', bytes, 'hex')])
})

test('a hash in pieces is the hash of the whole text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 8 }), (text, pieceChars) => {
      expect([...piecesOf(text, pieceChars)].join('')).toBe(text)
      expect(runToEnd(hashing(piecesOf(text, pieceChars))).digest('hex')).toBe(hash('sha256', text, 'hex'))
    }),
  )
})
