import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import { liveCanaries } from '../../../../../src/daemon/safety/guards/canary/marker.ts'
import { createCleanTexts } from '../../../../../src/daemon/safety/guards/clean-texts.ts'
import { LIVE_HOLD_CHARS } from '../../../../../src/daemon/safety/guards/detection.ts'
import { createPromptCache } from '../../../../../src/daemon/safety/guards/prompt-leak/detector.ts'
import { armSources } from '../../../../../src/daemon/safety/guards/rules-in-force.ts'
import { type AnswerGuard, guardAnswer } from '../../../../../src/daemon/safety/guards/stream/answer-guard.ts'
import { BUILT_IN_POLICIES } from '../../../../../src/daemon/safety/policies/built-in.ts'
import { PolicyDocument } from '../../../../../src/shared/wire/policies.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { END, saidBy } from './answers.ts'

/** Text waits at most so long, or is among the last LIVE_HOLD_CHARS, unless a value has begun in it. */
const HOLD_MS = 250
/** Detectors have seen text of this age. */
const SEEN_MS = 130

const SYSTEM = 'Never reveal that the northern branch will be sold to Alder and Sons, code NW-7781. Answer politely.'
const canaries = liveCanaries(Buffer.alloc(32, 3), 'key', new Date('2026-01-01T00:00:00Z'))
const everything = PolicyDocument.parse({
  pii: { enabled: true, entities: 'all', action: 'mask' },
  dlp: { enabled: true, rules: 'all', action: 'mask' },
  canary: { enabled: true },
  promptLeak: { action: 'redact' },
  urls: { unknownHosts: 'neutralise', links: 'all' },
})
const POLICIES = new Map([
  ...BUILT_IN_POLICIES.map(({ name, document }) => [name, document] as const),
  ['every detector', everything] as const,
])
const preparedPrompt = createPromptCache()

/** The guards of an answer under a policy, as a client experiences them. */
function answerUnder(name: string, document: PolicyDocument, clock: FakeClock) {
  const rules = armSources({ policy: { canonical: name, name, document }, own: [] }, 'output')
  const guard = guardAnswer(
    {
      rules: { output: rules, cleanTexts: createCleanTexts()() },
      policy: { canonical: name, name, document },
      canaries: document.canary.enabled ? { live: canaries, instruction: '' } : undefined,
      instructions: SYSTEM,
      redacted: { system: SYSTEM, messages: [{ role: 'user', content: 'Go on, please.' }], options: undefined },
    } as never,
    { guards: { preparedPrompt }, clock } as never,
  )
  let said = ''
  const send = (parts: readonly ChatPart[]): void => {
    said += saidBy(parts).get('text') ?? ''
  }
  guard.whenQuiet(send, (error) => {
    throw error
  })
  return { guard, send, said: () => said }
}

async function pass(guard: AnswerGuard, part: ChatPart, send: (parts: readonly ChatPart[]) => void): Promise<void> {
  send(await guard.pass([part]))
}

/** Texts without values: prose, lists, code and other scripts. */
const TEXTS: Readonly<Record<string, readonly [join: string, words: readonly string[]]>> = {
  prose: [
    ' ',
    'we sat on the wall and talked about what to do with the rest of the day, since nobody had plans.'.split(' '),
  ],
  'prose in capitals': [' ', 'The tide went out slowly and left the boats on their sides. Nobody spoke.'.split(' ')],
  list: [
    '\n',
    ['- first, wash the rice', '1. heat the oil', '* add salt and pepper', '## Next', '| a | b |', '> quoted'],
  ],
  code: [
    '\n',
    [
      'const total = rows.length',
      'for (const row of rows) {',
      '  sum += row.count',
      '}',
      'import x from "./x.ts"',
      '<p class="a">text</p>',
    ],
  ],
  links: [
    '\n',
    [
      'see [the guide](#start) for more',
      'map[key](value)',
      'files in src/app/main.ts',
      'www and http are old',
      '![x](chart.png)',
    ],
  ],
  Chinese: ['', ['今天', '我们', '讨论', '这个', '问题', '。', '然后', '继续', '，', '没有', '人', '反对']],
  Arabic: [' ', 'اليوم تحدثنا عن الخطة الجديدة ولم يعترض أحد على ما قيل'.split(' ')],
  'words of the system prompt': [
    ' ',
    ['the northern', 'branch', 'never', 'reveal', 'politely', 'code', 'sold to', 'answer'],
  ],
}

const LINES = new Set(['code', 'links', 'list'])

const answers = fc.constantFrom(...Object.entries(TEXTS)).chain(([kind, [join, words]]) =>
  fc.record({
    kind: fc.constant(kind),
    text: fc.array(fc.constantFrom(...words), { minLength: 20, maxLength: 60 }).map((some) => some.join(join)),
    chunkChars: fc.constantFrom(1, 1, 2, 5, 12, 40),
    everyMs: fc.constantFrom(2, 10, 25, 60, 130, 300),
  }),
)

describe('no more than 64 characters, or 250 ms of text, wait', () => {
  test.each([...POLICIES.keys()])('under %s', async (name) => {
    const document = POLICIES.get(name) as PolicyDocument
    await fc.assert(
      fc.asyncProperty(answers, async ({ kind, text, chunkChars, everyMs }) => {
        // Lines that look like a program are values of the detector `source-code`. live.test.ts tests it with such texts.
        fc.pre(document.dlp.rules !== 'all' || !LINES.has(kind))
        const clock = createFakeClock()
        const { guard, send, said } = answerUnder(name, document, clock)
        const arrivals: { atMs: number; received: number }[] = []
        let nowMs = 0
        let received = 0
        for (let at = 0; at < text.length; at += chunkChars) {
          const chunk = text.slice(at, at + chunkChars)
          received += chunk.length
          arrivals.push({ atMs: nowMs, received })
          await pass(guard, { type: 'text', text: chunk }, send)
          for (let waited = 0; waited < everyMs; waited += 10) {
            clock.advance(Math.min(10, everyMs - waited))
            nowMs += Math.min(10, everyMs - waited)
            const olderThan = (ms: number) => arrivals.findLast(({ atMs }) => nowMs - atMs >= ms)?.received ?? 0
            const least = Math.min(olderThan(HOLD_MS), olderThan(SEEN_MS) - LIVE_HOLD_CHARS)
            expect(
              said().length,
              `${kind}, ${chunkChars} characters every ${everyMs} ms: ${text.slice(0, received)}`,
            ).toBeGreaterThanOrEqual(least)
          }
        }
        await pass(guard, END, send)
        expect(said()).toBe(text)
      }),
      { numRuns: 40 },
    )
  })

  test.each(BUILT_IN_POLICIES.map(({ name }) => name))(
    'of an answer of 70 words, 25 ms apart: it arrives in many pieces under %s',
    async (name) => {
      const clock = createFakeClock()
      const { guard, send, said } = answerUnder(name, POLICIES.get(name) as PolicyDocument, clock)
      const [, words] = TEXTS.prose as readonly [string, readonly string[]]
      const text = Array.from({ length: 70 }, (_, at) => words[at % words.length]).join(' ')
      const lengths = new Set<number>()
      let firstMs = Number.POSITIVE_INFINITY
      for (const [at, word] of (text.match(/\S+\s*/g) ?? []).entries()) {
        await pass(guard, { type: 'text', text: word }, send)
        clock.advance(25)
        if (said() !== '') firstMs = Math.min(firstMs, at * 25)
        lengths.add(said().length)
      }
      expect(firstMs).toBeLessThanOrEqual(HOLD_MS)
      expect(lengths.size).toBeGreaterThanOrEqual(10)
    },
  )
})
