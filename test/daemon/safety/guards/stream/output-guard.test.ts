import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import { runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import { DETECTION_HOLD_CHARS } from '../../../../../src/daemon/safety/guards/detection.ts'
import { createRegexSearch } from '../../../../../src/daemon/safety/guards/dlp/regex-search.ts'
import { createPseudonyms } from '../../../../../src/daemon/safety/guards/pseudonyms.ts'
import { type ArmedDetector, screenText } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { OutputBlocked } from '../../../../../src/daemon/safety/guards/stream/output-blocked.ts'
import { createOutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'
import type { PolicyAction } from '../../../../../src/shared/wire/policies.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { cutAnywhere, END, runGuard, saidBy, sampleText } from './answers.ts'
import { armAll, SAMPLE_DETECTORS } from './sample-detectors.ts'

const ACTIONS: Record<string, PolicyAction> = { digits: 'mask', pair: 'tokenize', code: 'log', fence: 'remove' }
const mixed = armAll((type) => ACTIONS[type] ?? 'mask')
const pseudonymsOf = (texts: string[]) => createPseudonyms({ key: Buffer.alloc(32, 7), tenantId: 't1', texts })
const arm = (name: keyof typeof SAMPLE_DETECTORS, action: PolicyAction): ArmedDetector[] => [
  { guard: 'sample', detector: SAMPLE_DETECTORS[name], actionOf: () => action },
]

const text = (words: string): ChatPart => ({ type: 'text', text: words })
const reasoning = (words: string): ChatPart => ({ type: 'reasoning', text: words, origin: 'anthropic' })
const call = (index: number, pieces: string): ChatPart => ({ type: 'tool_call', index, arguments: pieces })

test('for any split of a text, the output equals the guarded complete text, and released text is never revoked', () => {
  fc.assert(
    fc.property(sampleText, fc.array(fc.nat()), (whole, cuts) => {
      const expected = screenText(whole, 'text', mixed, pseudonymsOf([]))
      const guard = createOutputGuard({ armed: mixed, pseudonyms: pseudonymsOf([]) })
      const { out, moments } = runGuard(guard, [...cutAnywhere(whole, cuts).map((chunk) => [text(chunk)]), [END]])
      expect(saidBy(out).get('text') ?? '').toBe(expected.text)
      for (const moment of moments) expect(expected.text.startsWith(moment.get('text') ?? '')).toBe(true)
      expect(toCounts(guard.hits)).toEqual(toCounts(expected.hits))
      expect(out.at(-1)).toBe(END)
    }),
    { numRuns: 500 },
  )
})

test.each(Object.keys(SAMPLE_DETECTORS) as (keyof typeof SAMPLE_DETECTORS)[])(
  'a value of %s is masked for every split of its text into two and into single characters',
  (name) => {
    const armed = arm(name, 'mask')
    const whole = 'a key: ABCD is 12345, mail jo@x or <<not\nthis>> 123456789 1234 key ABCDEFGH. <'
    const expected = screenText(whole, 'text', armed).text
    expect(expected).not.toBe(whole)
    const splits = [[...whole], ...Array.from(whole, (_, at) => [whole.slice(0, at), whole.slice(at)])]
    for (const chunks of splits) {
      const { out } = runGuard(createOutputGuard({ armed }), [...chunks.map((chunk) => [text(chunk)]), [END]])
      expect(saidBy(out).get('text')).toBe(expected)
    }
  },
)

test('interleaved channels are guarded as if each were alone, and keep their order', () => {
  const piece = fc.record({
    channel: fc.nat(3),
    words: fc.constantFrom('jo', '@', 'x', ' ', '12', '34', 'no ', '<<', '>>'),
  })
  fc.assert(
    fc.property(fc.array(fc.array(piece, { maxLength: 3 }), { maxLength: 7 }), (pieces) => {
      const toPart = ({ channel, words }: { channel: number; words: string }): ChatPart => {
        if (channel === 0) return text(words)
        return channel === 1 ? reasoning(words) : call(channel - 2, words)
      }
      const batches: ChatPart[][] = pieces.map((batch) => batch.map(toPart))
      const guard = createOutputGuard({ armed: mixed, pseudonyms: pseudonymsOf([]) })
      const { out, moments } = runGuard(guard, [...batches, [END]])
      const said = saidBy(out)
      for (const [channel, words] of saidBy(batches.flat())) {
        const format = channel.startsWith('call') ? 'json' : 'text'
        const expected = screenText(words, format, mixed, pseudonymsOf([])).text
        expect(said.get(channel) ?? '').toBe(expected)
        for (const moment of moments) expect(expected.startsWith(moment.get(channel) ?? '')).toBe(true)
      }
    }),
    { numRuns: 300 },
  )
  const guard = createOutputGuard({ armed: mixed })
  const { out } = runGuard(guard, [[text('I ask jo'), call(0, '{}')], [text(' and wait'), text(' for it')], [END]])
  expect(out).toEqual([text('I ask '), text('jo'), call(0, '{}'), text(' and wait for '), text('it'), END])
})

test('tool arguments remain JSON, and no escape hides a value', () => {
  const value = fc.oneof(sampleText, fc.integer({ min: 0, max: 999_999_999 }), fc.boolean(), fc.constant(null))
  const armed = [...arm('digits', 'mask'), ...arm('pair', 'remove')]
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.stringMatching(/^[a-z]{1,3}$/), value)),
      fc.array(fc.nat(), { minLength: 1 }),
      fc.array(fc.nat()),
      (members, escaped, cuts) => {
        const raw = toSpelledJson(members, escaped)
        const { out } = runGuard(createOutputGuard({ armed }), [
          ...cutAnywhere(raw, cuts).map((chunk) => [call(0, chunk)]),
          [END],
        ])
        const screened = members.map(([name, said]) => [name, screenValue(said, armed)])
        expect(JSON.parse(saidBy(out).get('call 0') ?? '')).toEqual(screened)
      },
    ),
    { numRuns: 300 },
  )
})

/** JSON of pairs, in which some characters of strings are written as \\u escapes. */
function toSpelledJson(members: (readonly [string, unknown])[], escaped: readonly number[]): string {
  let count = 0
  const spell = (words: string) =>
    `"${Array.from({ length: words.length }, (_, at) => {
      const isEscaped = (escaped[count++ % escaped.length] ?? 0) % 3 === 0
      const code = words.charCodeAt(at).toString(16).padStart(4, '0')
      return isEscaped || /["\\\p{Cc}\p{Cs}]/u.test(words[at] ?? '') ? `\\u${code}` : words[at]
    }).join('')}"`
  const render = (said: unknown) => (typeof said === 'string' ? spell(said) : JSON.stringify(said))
  return `[${members.map(([name, said]) => `[${spell(name)} , ${render(said)}]`).join(', ')}]`
}

function screenValue(said: unknown, armed: readonly ArmedDetector[]): unknown {
  if (typeof said === 'string') return screenText(said, 'text', armed).text
  if (typeof said !== 'number') return said
  const screened = screenText(String(said), 'text', armed).text
  return screened === String(said) ? said : screened
}

test('text after a complete JSON value, or invalid JSON in JSON mode, is guarded like all other text', () => {
  const piece = fc.constantFrom(
    ...[
      '{',
      '}',
      '[',
      ']',
      '"',
      '"a"',
      ':',
      ',',
      ' ',
      '\n',
      '1234',
      '12',
      'jo',
      '@',
      'x',
      'key: ',
      'ABC',
      '\\',
      '\\u0031',
    ],
    ...['"{', '\\"', '\\\\u0031', '\\\\n', '{"a":1}', '"it"', '{"a":"1234"}', 'jo@x', '9'],
  )
  const said = fc.array(piece, { maxLength: 20 }).map((pieces) => pieces.join(''))
  fc.assert(
    fc.property(said, fc.array(fc.nat()), (whole, cuts) => {
      const expected = screenText(whole, 'json', mixed, pseudonymsOf([])).text
      for (const toPart of [text, (words: string) => call(0, words)]) {
        const guard = createOutputGuard({ armed: mixed, pseudonyms: pseudonymsOf([]), textFormat: 'json' })
        const { out, moments } = runGuard(guard, [...cutAnywhere(whole, cuts).map((chunk) => [toPart(chunk)]), [END]])
        const channel = toPart === text ? 'text' : 'call 0'
        expect(saidBy(out).get(channel) ?? '').toBe(expected)
        for (const moment of moments) expect(expected.startsWith(moment.get(channel) ?? '')).toBe(true)
      }
    }),
    { numRuns: 400 },
  )
})

test('an answer that arrives at once yields every few thousand characters, with the same result', () => {
  const words = 'at 1234 or jo@x and key ABCDE. '.repeat(3_000)
  const logprobs = { content: [] }
  const batch: ChatPart[] = [{ type: 'text', text: words, logprobs }, call(0, JSON.stringify([words])), END]
  const expected = screenText(words, 'text', mixed, pseudonymsOf([])).text
  const work = createOutputGuard({ armed: mixed, pseudonyms: pseudonymsOf([]) }).passing(batch)
  let turns = 0
  for (;;) {
    const step = work.next()
    if (!step.done) turns++
    else {
      expect(saidBy(step.value).get('text')).toBe(expected)
      expect(JSON.parse(saidBy(step.value).get('call 0') ?? '')).toEqual([expected])
      expect(step.value.some((part) => 'logprobs' in part)).toBe(false)
      break
    }
  }
  expect(turns).toBeGreaterThan((2 * words.length) / 8_192)
})

test('text left unread at the step limit is treated as a finding, also in a stream', () => {
  const slow = createRegexSearch('[0-9]{6}', { type: 'rule', maxChars: 16 })
  const armed: ArmedDetector[] = [{ guard: 'own', detector: slow, actionOf: () => 'mask' }]
  const whole = 'It is a long day that never seems to end. '.repeat(20)
  let left = 5_000
  const effort = {
    spend(steps: number): boolean {
      left -= steps
      return left >= 0
    },
  }
  const guard = createOutputGuard({ armed, effort })
  const { out } = runGuard(guard, [
    ...cutAnywhere(
      whole,
      [...Array(200).keys()].map((at) => at * 4),
    ).map((one) => [text(one)]),
    [END],
  ])
  const said = saidBy(out).get('text') ?? ''
  expect(said).toMatch(/^It is a long day[^[]*(?:\[UNREAD\])+$/)
  expect(guard.hits.map(({ type }) => type)).toEqual(['unread'])
})

test('JSON inside a string is scanned too, and remains JSON in JSON', () => {
  const inner = '{"to":"jo\\u0040x","no":"\\u0031234","line":"\\n1234","say":"a \\"1234\\" b\\\\c"}'
  const raw = JSON.stringify({ body: inner })
  const masked = JSON.stringify({ to: '[PAIR]', no: '[DIGITS]', line: '\n[DIGITS]', say: 'a "[DIGITS]" b\\c' })
  const armed = [...arm('digits', 'mask'), ...arm('pair', 'mask')]
  for (const chunks of [[raw], [...raw]]) {
    const { out } = runGuard(createOutputGuard({ armed }), [...chunks.map((chunk) => [call(0, chunk)]), [END]])
    const said = JSON.parse(saidBy(out).get('call 0') ?? '')
    expect(JSON.parse(said.body)).toEqual(JSON.parse(masked))
  }
  const path = JSON.stringify({ path: 'C:\\new\\1234' })
  expect(JSON.parse(screenText(path, 'json', armed).text)).toEqual({ path: 'C:\\new\\[DIGITS]' })
})

test('a blocked value is neither in the released text nor in the error, and nothing is released afterwards', () => {
  const guard = createOutputGuard({ armed: arm('digits', 'block') })
  expect(guard.pass([text('The code is '), text('12')])).toEqual([text('The code is ')])
  expect(guard.pass([text('345')])).toEqual([])
  const refused = () => guard.pass([text('. Bye'), END])
  expect(refused).toThrow(OutputBlocked)
  try {
    refused()
  } catch (error) {
    expect((error as OutputBlocked).hits).toEqual([{ guard: 'sample', type: 'digits', action: 'block', count: 1 }])
    expect(JSON.stringify(error) + String(error)).not.toContain('12345')
  }
  expect(() => guard.end()).toThrow(OutputBlocked)
})

test('a batch without findings passes unchanged', () => {
  const guard = createOutputGuard({ armed: mixed })
  for (const batch of [[text('Nothing. '), call(0, '{"a": 1}')], [text('To see! ')], [END]]) {
    expect(guard.pass(batch)).toBe(batch)
  }
})

test('a finding that is only logged is counted once, even if another detector releases half of it', () => {
  const half = { find: () => [], openFrom: (words: string) => Math.max(0, words.length - 3) }
  const armed = [...arm('digits', 'log'), { guard: 'sample', detector: half, actionOf: () => 'mask' as const }]
  const guard = createOutputGuard({ armed })
  for (const chunk of 'at 123456 and 7890 or 1234') guard.pass([text(chunk)])
  guard.end()
  expect(guard.hits).toEqual([{ guard: 'sample', type: 'digits', action: 'log', count: 3 }])
})

test('the answer of an upstream that breaks is released at the end, guarded', () => {
  const guard = createOutputGuard({ armed: arm('digits', 'mask') })
  expect(guard.pass([text('from 1234 to 9876')])).toEqual([text('from [DIGITS] to ')])
  expect(guard.end()).toEqual([text('[DIGITS]')])
})

test('a changed reasoning step loses its signature, an unchanged one keeps it', () => {
  const seal = (signature: string): ChatPart => ({ type: 'reasoning', text: '', origin: 'anthropic', signature })
  const guard = createOutputGuard({ armed: arm('digits', 'mask') })
  const parts = [reasoning('think 1234'), seal('s1'), reasoning('more'), seal('s2'), text('so'), END]
  expect(guard.pass(parts)).toEqual([reasoning('think [DIGITS]'), reasoning('more'), seal('s2'), text('so'), END])
})

test('what Google signs is a part of the answer, so it stays when the reasoning before it is changed', () => {
  const seal: ChatPart = { type: 'reasoning', text: '', origin: 'google', data: 'call_0:sig', isSignatureOfPart: true }
  const guard = createOutputGuard({ armed: arm('digits', 'mask') })
  expect(guard.pass([{ type: 'reasoning', text: '1234', origin: 'google' }, seal, END])).toContain(seal)
})

test('logprobs of a changed text are omitted, those of a split one leave with its last piece', () => {
  const guard = createOutputGuard({ armed: arm('digits', 'mask') })
  const logprobs = { content: [] }
  const leaving = guard.pass([
    { type: 'text', text: 'at 1234.', logprobs },
    { type: 'text', text: ' or 12', logprobs },
  ])
  expect(leaving).toEqual([text('at [DIGITS]. or ')])
  expect(guard.pass([text('!')])).toEqual([{ type: 'text', text: '12', logprobs }, text('!')])
})

test('text is not held back long by reasoning, nor arguments by text', () => {
  const guard = createOutputGuard({ armed: arm('pair', 'mask') })
  expect(guard.pass([reasoning('so it is jo'), text('The answer ')])).toEqual([reasoning('so it is ')])
  const words = 'is a long one that goes on and on until nobody waits any more. '
  expect(guard.pass([text(words)])).toEqual([reasoning('jo'), text(`The answer ${words}`)])
  // Released text still counts as context: the rest of a value is masked.
  expect(guard.pass([reasoning('hn@x.')])).toEqual([reasoning('[PAIR].')])
  expect(guard.pass([text('jo'), call(0, `"${'.'.repeat(DETECTION_HOLD_CHARS)}"`)])).toHaveLength(2)
})

test('the held part of the answer is bounded for any detectors', () => {
  const greedy = { find: () => [], openFrom: () => 0 }
  const guard = createOutputGuard({ armed: [{ guard: 'sample', detector: greedy, actionOf: () => 'mask' }] })
  let held = 0
  for (let chunk = 0; chunk < 1_000; chunk++) {
    const leaving = guard.pass([text('x'.repeat(100))])
    held += 100 - (saidBy(leaving).get('text') ?? '').length
    expect(held).toBeLessThanOrEqual(2 * DETECTION_HOLD_CHARS + 1_200)
  }
})

test('detectors scan each character a bounded number of times, even while much is held', () => {
  let looked = 0
  const counting = (openFrom: (words: string) => number, more: object): ArmedDetector => ({
    guard: 'sample',
    detector: {
      find(words) {
        looked += words.length
        return []
      },
      openFrom(words) {
        looked += words.length
        return openFrom(words)
      },
      ...more,
    },
    actionOf: () => 'mask',
  })
  const chars = 100_000
  const run = (openFrom: (words: string) => number, more: object = {}) => {
    looked = 0
    const guard = createOutputGuard({ armed: [counting(openFrom, more)] })
    for (let at = 0; at < chars; at += 4) guard.pass([text('abc ')])
    return looked / chars
  }
  expect(run((words) => words.length)).toBeLessThan(140)
  const holdsMuch = (words: string) => Math.max(0, words.length - DETECTION_HOLD_CHARS)
  expect(run(holdsMuch, { holdsOnlyValues: true })).toBeLessThan(140)
  // A detector that would hold everything is asked once more, for the start of the text.
  expect(run(holdsMuch)).toBeLessThan(260)
})

test('with a clock, detectors scan the first words at once, then in batches', () => {
  const clock = createFakeClock()
  const guard = createOutputGuard({ armed: arm('digits', 'mask'), clock })
  expect(guard.pass([text('One ')])).toEqual([text('One ')])
  expect(guard.pass([text('two ')])).toEqual([])
  clock.advance(120)
  expect(guard.pass([text('1234 ')])).toEqual([text('two [DIGITS] ')])
  expect(guard.pass([text('x'.repeat(2_047))])).toEqual([])
  expect(guard.pass([text('y')])).toEqual([text(`${'x'.repeat(2_047)}y`)])
  expect(guard.pass([text('last ')])).toEqual([])
  expect(guard.pass([call(0, '{}')])).toEqual([text('last '), call(0, '{}')])
  expect(guard.pass([text('words'), END])).toEqual([text('words'), END])
})

test('during a pause, text held for batching can be released; possible findings stay', () => {
  const clock = createFakeClock()
  const guard = createOutputGuard({ armed: arm('digits', 'mask'), clock })
  guard.pass([text('One ')])
  expect(guard.dueInMs).toBeUndefined()
  clock.advance(30)
  expect(guard.pass([text('two 12')])).toEqual([])
  expect(guard.dueInMs).toBe(90)
  clock.advance(100)
  expect(guard.dueInMs).toBe(0)
  expect(runToEnd(guard.catchingUp())).toEqual([text('two ')])
  expect(guard.dueInMs).toBeUndefined()
  expect(runToEnd(guard.catchingUp())).toEqual([])
  expect(guard.pass([text('34'), END])).toEqual([text('[DIGITS]'), END])
  expect(guard.dueInMs).toBeUndefined()
})

test('text held for batching is guarded like all other text, and leaves as one part', () => {
  const clock = createFakeClock()
  const guard = createOutputGuard({ armed: arm('digits', 'mask'), clock })
  expect(guard.keep([text('The first words are not kept.')])).toBe(false)
  guard.pass([text('One ')])
  for (const words of ['and ', 'two, 12', '34', ' ']) expect(guard.keep([text(words)])).toBe(true)
  for (const other of [reasoning('so'), call(0, '{}'), END]) expect(guard.keep([other])).toBe(false)
  expect(guard.keep([text('x'.repeat(2_048))])).toBe(false)
  expect(guard.dueInMs).toBe(120)
  clock.advance(120)
  expect(guard.keep([text('then ')])).toBe(false)
  expect(guard.pass([text('then ')])).toEqual([text('and two, [DIGITS] then ')])

  const batch = fc.record({
    part: fc.oneof(sampleText.map(text), sampleText.map(reasoning), fc.constant(call(0, '"1234"'))),
    restMs: fc.constantFrom(0, 4, 120),
  })
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 30 }), (batches) => {
      const [kept, passed] = [0, 1].map(() => createOutputGuard({ armed: mixed, clock }))
      const out: ChatPart[][] = [[], []]
      for (const { part, restMs } of [...batches, { part: END, restMs: 0 }]) {
        if (!kept?.keep([part])) out[0]?.push(...(kept?.pass([part]) ?? []))
        out[1]?.push(...(passed?.pass([part]) ?? []))
        expect(out[0]).toEqual(out[1])
        clock.advance(restMs)
      }
      expect(kept?.hits).toEqual(passed?.hits)
    }),
    { numRuns: 300 },
  )
})

const toCounts = (hits: readonly { type: string; count: number }[]) =>
  Object.fromEntries(hits.map(({ type, count }) => [type, count]))
