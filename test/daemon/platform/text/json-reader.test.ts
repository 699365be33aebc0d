import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import { type JsonReaderOptions, readingJson } from '../../../../src/daemon/platform/text/json-reader.ts'

const read = (json: string | Buffer, options?: JsonReaderOptions) => runToEnd(readingJson(Buffer.from(json), options))

/** The value with the order of its members, own `__proto__` members and negative zeros; or `not JSON`. */
function outcomeOf(parse: () => unknown): string {
  let value: unknown
  try {
    value = parse()
  } catch (error) {
    expect(error).toBeInstanceOf(SyntaxError)
    return 'not JSON'
  }
  return shown(value)
}

function shown(value: unknown): string {
  if (Object.is(value, -0)) return '-0'
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(shown)}]`
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  return `{${Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}:${shown(one)}`)}}`
}

function expectSameAsJsonParse(json: Buffer, pieceBytes: number): void {
  expect(outcomeOf(() => read(json, { pieceBytes }))).toBe(outcomeOf(() => JSON.parse(json.toString())))
}

const blank = fc.stringMatching(/^[ \t\n\r]{0,3}$/)
const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 40 }).map((value) => JSON.stringify(value)),
  fc.string({ unit: 'binary', maxLength: 20 }).map((value) => JSON.stringify(value)),
  fc
    .array(
      fc.constantFrom('\\"', '\\\\', '\\/', '\\n', '\\u0041', '\\uD83D', '\\ude00', '😀', 'ж', 'a', '[', '}', ','),
      {
        maxLength: 40,
      },
    )
    .map((parts) => `"${parts.join('')}"`),
)
const scalar = fc.oneof(
  text,
  fc.double().map((value) => JSON.stringify(value)),
  fc.constantFrom('0', '-0', '1E400', '-12.50e-3', '123456789012345678901234567890', 'true', 'false', 'null'),
)
/** JSON.parse of Node 24 sometimes reads an escaped name of one character as a backslash. */
const isLoneEscape = (name: string) => /^"\\(u....|.)"$/.test(name)
const names = ['"ab"', '"\\u0061b"', '"__proto__"', '"constructor"', '"1"', '""']
const key = fc.oneof(
  text.filter((name) => !isLoneEscape(name)),
  fc.constantFrom(...names),
)
const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'medium' },
    fc.tuple(blank, scalar, blank).map((parts) => parts.join('')),
    fc.tuple(blank, fc.array(tie('json')), blank).map(([before, items, after]) => `${before}[${items}]${after}`),
    fc.tuple(blank, fc.array(fc.tuple(blank, key, blank, tie('json'))), blank).map(([before, members, after]) => {
      const inner = members.map(([left, name, right, value]) => `${left}${name}${right}:${value}`)
      return `${before}{${inner}}${after}`
    }),
    fc.tuple(fc.constantFrom('[ ]', '{ }', '[\n]'), blank).map((parts) => parts.join('')),
  ),
}))

test('JSON is read exactly as JSON.parse reads it, whatever the size of the pieces', () => {
  fc.assert(
    fc.property(json, fc.integer({ min: 1, max: 64 }), (value, pieceBytes) => {
      expect(() => JSON.parse(value)).not.toThrow()
      expectSameAsJsonParse(Buffer.from(value), pieceBytes)
    }),
    { numRuns: 1_000 },
  )
})

test('damaged JSON is accepted or rejected exactly as by JSON.parse', () => {
  const damage = fc.constantFrom(
    '',
    ',',
    ':',
    '"',
    '\\',
    '[',
    ']',
    '{',
    '}',
    '-',
    '1',
    ' ',
    'x',
    '\u0000',
    '\n',
    '[]',
    '{}',
    '\u{feff}',
  )
  fc.assert(
    fc.property(
      json,
      fc.array(fc.tuple(fc.nat(), fc.nat({ max: 2 }), damage), { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 64 }),
      (value, changes, pieceBytes) => {
        let damaged = value
        for (const [place, removed, added] of changes) {
          const at = place % (damaged.length + 1)
          damaged = damaged.slice(0, at) + added + damaged.slice(at + removed)
        }
        expectSameAsJsonParse(Buffer.from(damaged), pieceBytes)
      },
    ),
    { numRuns: 3_000 },
  )
})

test('bytes that are not UTF-8 are decoded as in one piece', () => {
  const byte = fc.oneof(fc.integer({ min: 0x80, max: 0xff }), fc.constantFrom(0x61, 0x2c))
  fc.assert(
    fc.property(fc.array(byte), fc.integer({ min: 1, max: 8 }), (bytes, pieceBytes) => {
      expectSameAsJsonParse(Buffer.from([0x5b, 0x22, ...bytes, 0x22, 0x5d]), pieceBytes)
    }),
    { numRuns: 1_000 },
  )
})

test.each([
  '',
  ' ',
  ',',
  '1,2',
  '1 2',
  '[1,]',
  '[,1]',
  '[1,,2]',
  '[[1] [2]]',
  '[[1] "a"]',
  '["a" [1]]',
  '["a" "b"]',
  '[1}',
  '{1}',
  '{"a":-[1]}',
  '{"a":1[2]}',
  '{"a" [1]}',
  '{[1]}',
  '{"a":[1]:2}',
  '{"a":[1],}',
  '{"a":[1] "b":2}',
  '{"a":{"b":1}]',
  '["abc',
  '"abc',
  '[1]]',
  ']',
  '[',
  '{"a":',
  '"\\',
  '"\\u00',
  '["a\\u12"]',
  '\u{feff}{}',
  '[1] x',
  '{"a":"b":1}',
  '{"a","b":1}',
])('%j is not JSON in pieces of any size', (value) => {
  for (let pieceBytes = 1; pieceBytes < 9; pieceBytes++) {
    expect(() => read(value, { pieceBytes })).toThrow(SyntaxError)
  }
})

test('deep JSON is rejected at its first bracket that is too deep', () => {
  const options = { maxDepth: 3, tooDeep: () => new Error('too deep') }
  expect(read('[[[1]],"[[[[",{"a":"\\"[[[[","b\\\\":[]}]', options)).toEqual([[[1]], '[[[[', { a: '"[[[[', 'b\\': [] }])
  expect(() => read('[[[[1]]]]', options)).toThrow('too deep')
  expect(() => read('[[[['.repeat(1_000_000), options)).toThrow('too deep')
})

test('values are announced before they are created, and a large text takes many steps', () => {
  const counts: number[] = []
  const beforeValues = (count: number) => void counts.push(count)
  const items = Array.from({ length: 1_000 }, (_, at) => ({ at, text: 'x'.repeat(at % 7) }))
  expect(read(JSON.stringify({ items }), { pieceBytes: 512, beforeValues })).toEqual({ items })
  expect(counts.reduce((sum, count) => sum + count)).toBe(3_001)
  expect(Math.max(...counts)).toBeLessThan(200)

  const steps = [...readingJson(Buffer.from(JSON.stringify(['x\n😀'.repeat(100_000)])), { pieceBytes: 1_000 })]
  expect(steps.length).toBeGreaterThan(1_000)
})
