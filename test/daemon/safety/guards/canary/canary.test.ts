import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createCanaryDetector } from '../../../../../src/daemon/safety/guards/canary/detector.ts'
import { canaryInstruction, canaryOf, liveCanaries } from '../../../../../src/daemon/safety/guards/canary/marker.ts'
import { screenText } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { createOutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'
import { expectIncremental } from '../incremental.ts'
import { cutAnywhere, END, runGuard, saidBy } from '../stream/answers.ts'
import { LEAK_KINDS } from './leaks.ts'

const subkey = Buffer.alloc(32, 3)
const NOW = new Date('2026-11-21T10:00:00Z')
const live = liveCanaries(subkey, 'key-1', NOW)
const detector = createCanaryDetector(live)
const leak = fc
  .tuple(fc.constantFrom(...LEAK_KINDS), fc.constantFrom(...live), fc.nat(99))
  .map(([kind, canary, salt]) => kind.write(canary, salt))

test('a canary belongs to one key and one day, and those of the last two days are active', () => {
  const [today, yesterday] = live
  expect(today).toEqual(canaryOf(subkey, 'key-1', '2026-11-21'))
  expect(yesterday).toEqual(canaryOf(subkey, 'key-1', '2026-11-20'))
  const others = [
    yesterday,
    canaryOf(subkey, 'key-2', '2026-11-21'),
    canaryOf(Buffer.alloc(32, 4), 'key-1', '2026-11-21'),
  ]
  for (const other of others) {
    expect(other.id).not.toBe(today.id)
    expect(other.words.filter((word) => today.words.includes(word))).toEqual([])
  }
  expect(canaryInstruction(today)).toContain(today.words.join(' '))
})

test.each(LEAK_KINDS)('a canary is found $name, and distinguished from that of the previous day', ({ write }) => {
  for (let key = 0; key < 25; key++) {
    const canaries = liveCanaries(subkey, `key-${key}`, NOW)
    const find = createCanaryDetector(canaries).find
    for (const canary of canaries) {
      for (let salt = 0; salt < 8; salt++) {
        const found = find(write(canary, salt))
        expect([...new Set(found.map(({ subject }) => subject))]).toEqual([canary.id])
      }
    }
  }
})

test('nothing is found in the canary of another key', () => {
  const other = liveCanaries(subkey, 'key-2', NOW)
  for (const { write } of LEAK_KINDS) for (const canary of other) expect(detector.find(write(canary, 1))).toEqual([])
})

test('released text is never reinterpreted, wherever a leak is split', () => {
  fc.assert(
    fc.property(leak, leak, fc.string({ maxLength: 40 }), (first, second, between) => {
      expectIncremental(detector, first + between + second)
    }),
    { numRuns: 60 },
  )
})

test('a search for the exact phrase finds less than a tenth of its spellings', () => {
  const [{ words }] = live
  const exact = LEAK_KINDS.filter(({ write }) => write(live[0], 1).includes(words.join(' ')))
  expect(exact.map(({ name }) => name)).toEqual(LEAK_KINDS.filter(({ isExact }) => isExact).map(({ name }) => name))
  expect(exact.length).toBeLessThan(LEAK_KINDS.length / 10)
})

test('a leak is found for any split into chunks, in text and in tool arguments', () => {
  const armed = [{ guard: 'canary', detector, actionOf: () => 'mask' as const }]
  fc.assert(
    fc.property(leak, fc.array(fc.nat(), { maxLength: 40 }), fc.boolean(), (words, cuts, isCall) => {
      const whole = isCall ? JSON.stringify({ words }) : words
      const expected = screenText(whole, isCall ? 'json' : 'text', armed)
      const guard = createOutputGuard({ armed })
      const chunks = cutAnywhere(whole, cuts).map((piece) => [
        isCall
          ? ({ type: 'tool_call', index: 0, arguments: piece } as const)
          : ({ type: 'text', text: piece } as const),
      ])
      const { out } = runGuard(guard, [...chunks, [END]])
      expect(saidBy(out).get(isCall ? 'call 0' : 'text')).toBe(expected.text)
      expect(guard.hits).toEqual(expected.hits)
      expect(guard.hits[0]?.subject).toMatch(/^cnr_[0-9a-f]{16}$/)
    }),
    { numRuns: 300 },
  )
})

test('ordinary words are not held back', () => {
  const words =
    'The quick brown fox jumps over the lazy dog, 12 times a day; see https://example.com/a/b?c=d or call 555-0100. '
  for (let end = 0; end <= words.length; end++) expect(detector.begunFrom?.(words.slice(0, end))).toBe(end)
})

const BENIGN_SETS = [
  'notinject',
  'oss-code',
  'oss-docs',
  'mt-bench',
  'wildguard-benign',
  'injecagent-benign-tool-outputs',
]

test('no text of the benign sets contains a canary of any of fifty keys', () => {
  const folder = join(process.env.AIGW_EVAL_DIR ?? '../shared/eval', 'injection')
  const files = BENIGN_SETS.map((name) => join(folder, `${name}.jsonl`)).filter((file) => existsSync(file))
  const texts = files.flatMap((file) =>
    readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .slice(0, 100)
      .map((line) => JSON.parse(line).text as string),
  )
  // The project's own documents are included, so that the set is never empty.
  texts.push(readFileSync('ARCHITECTURE.md', 'utf8'), readFileSync('package-lock.json', 'utf8').slice(0, 200_000))
  const canaries = Array.from({ length: 50 }, (_, key) => liveCanaries(subkey, `key-${key}`, NOW)).flat()
  const { find } = createCanaryDetector(canaries)
  expect(texts.flatMap((text) => find(text))).toEqual([])
})
