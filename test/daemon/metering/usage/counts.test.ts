import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type AnswerSoFar, counting } from '../../../../src/daemon/metering/usage/counts.ts'
import {
  countingInputTokens,
  ESTIMATED_TOKENS,
  type Input,
  inputTokensAtMost,
  RESERVED_TOKENS,
} from '../../../../src/daemon/metering/usage/input-tokens.ts'
import type { TokenUsage } from '../../../../src/daemon/models/provider.ts'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import { countTokens } from '../../../../src/daemon/platform/text/tokens.ts'

const told = (inputTokens: number, outputTokens: number, more: Partial<TokenUsage> = {}): TokenUsage => ({
  inputTokens,
  outputTokens,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  estimated: false,
  ...more,
})
const likelyInput = (input: Input) => runToEnd(countingInputTokens(input))
const words = 'some words to be read '.repeat(50)
const call = { system: '', messages: [{ role: 'user', content: words } as const], options: undefined }
const ours = { inputTokens: likelyInput(call), outputTokens: countTokens(words) }
const counts = (usage: TokenUsage | undefined, output: Partial<AnswerSoFar> = {}) =>
  runToEnd(counting(call, 1_000, { usage, isFinal: true, generated: words, ...output }))

describe('the billed usage of a complete answer', () => {
  test("is the provider's count", () => {
    const usage = told(321, 45, { cacheReadTokens: 300, cacheWriteTokens: 21, reasoningTokens: 45 })
    expect(counts(usage)).toEqual({ usage, doubts: undefined })
  })

  test('is our estimate without a provider count, for each side separately', () => {
    const estimated = told(0, 0, { estimated: true })
    expect(counts(undefined, { isFinal: false }).usage).toEqual({ ...estimated, ...ours })
    expect(counts(told(321, 0)).usage).toEqual({ ...estimated, inputTokens: 321, outputTokens: ours.outputTokens })
    expect(counts(told(0, 45)).usage).toEqual({ ...estimated, inputTokens: ours.inputTokens, outputTokens: 45 })
  })

  test('is zero for the output of an empty answer', () => {
    expect(counts(told(321, 0), { generated: '' }).usage).toEqual(told(321, 0))
  })

  test('ignores an impossible count, which is reported', () => {
    const { usage, doubts } = counts(told(1_700_000_000_000, Number.MAX_SAFE_INTEGER + 1))
    expect(usage).toEqual(told(ours.inputTokens, ours.outputTokens, { estimated: true }))
    expect(doubts).toEqual({ inputTokens: 1_700_000_000_000, outputTokens: Number.MAX_SAFE_INTEGER + 1 })
  })

  test('accepts far more than expected: hidden preambles, large images, long reasoning', () => {
    expect(counts(told(100_000, 100_000))).toEqual({ usage: told(100_000, 100_000), doubts: undefined })
  })

  test('never has more cached tokens than input, or more reasoning than output', () => {
    const odd = told(10, 5, { cacheReadTokens: 50_000_000, cacheWriteTokens: 7, reasoningTokens: 6 })
    expect(counts(odd)).toEqual({
      usage: told(10, 5, { cacheReadTokens: 10, reasoningTokens: 5 }),
      doubts: { cacheReadTokens: 50_000_000, cacheWriteTokens: 7, reasoningTokens: 6 },
    })
  })

  test('never has more tokens of audio than tokens', () => {
    const odd = told(10, 5, { audioInputTokens: 11, audioOutputTokens: 6 })
    expect(counts(odd)).toEqual({
      usage: told(10, 5, { audioInputTokens: 10, audioOutputTokens: 5 }),
      doubts: { audioInputTokens: 11, audioOutputTokens: 6 },
    })
  })

  test('without a count, includes the length of its audio', () => {
    const { outputTokens, audioOutputTokens } = counts(undefined, { isFinal: false, audioChars: 32_001 }).usage
    expect([outputTokens, audioOutputTokens]).toEqual([ours.outputTokens + 11, 11])
  })

  test('can be added up, whatever a provider sends', () => {
    const count = fc.oneof(fc.nat(), fc.maxSafeNat(), fc.constantFrom(0, 1e300, 2 ** 54))
    fc.assert(
      fc.property(
        count,
        count,
        count,
        count,
        count,
        fc.boolean(),
        (i, o, cacheReadTokens, cacheWriteTokens, r, end) => {
          const { usage } = counts(told(i, o, { cacheReadTokens, cacheWriteTokens, reasoningTokens: r }), {
            isFinal: end,
          })
          const { estimated, tier, ...numbers } = usage
          for (const number of Object.values(numbers)) expect(Number.isSafeInteger(number) && number >= 0).toBe(true)
          expect(usage.cacheReadTokens + usage.cacheWriteTokens).toBeLessThanOrEqual(usage.inputTokens)
          expect(usage.reasoningTokens).toBeLessThanOrEqual(usage.outputTokens)
          expect(usage.inputTokens).toBeLessThan(1_000_000)
        },
      ),
    )
  })
})

describe('the billed usage of a broken answer', () => {
  test("is the higher of the provider's count and our estimate on each side", () => {
    const broken = { isFinal: false }
    expect(counts(told(10_000, 5_000), broken).usage).toEqual(told(10_000, 5_000, { estimated: true }))
    expect(counts(told(10_000, 1), broken).usage).toEqual(told(10_000, ours.outputTokens, { estimated: true }))
    expect(counts(told(1, 5_000), broken).usage).toEqual(told(ours.inputTokens, 5_000, { estimated: true }))
  })
})

describe('every part of a request counts in its reservation and estimate:', () => {
  const text = 'Ünïcode, and words enough to be counted as more than one'
  const bytes = Buffer.byteLength(text)
  const plain: Input = { system: '', messages: [{ role: 'user', content: '' }], options: undefined }
  const tool = [{ name: 'weather', description: text }]
  const format = { type: 'json_schema', name: 'answer', schema: { title: text } } as const
  const asked = (content: string) => ({ role: 'assistant', content }) as const

  test.each<[string, Input, number, number]>([
    ['the system prompt', { ...plain, system: text }, bytes, countTokens(text)],
    [
      'tools',
      { ...plain, options: { tools: tool } },
      RESERVED_TOKENS.tools + Buffer.byteLength(JSON.stringify(tool)),
      ESTIMATED_TOKENS.tools + countTokens(JSON.stringify(tool)),
    ],
    [
      'the format of the answer',
      { ...plain, options: { responseFormat: format } },
      Buffer.byteLength(JSON.stringify(format)),
      countTokens(JSON.stringify(format)),
    ],
    [
      'an image',
      { ...plain, messages: [{ role: 'user', content: [{ type: 'image', mediaType: 'image/png', data: 'A' }] }] },
      RESERVED_TOKENS.image,
      ESTIMATED_TOKENS.image,
    ],
    [
      'text beside an image',
      { ...plain, messages: [{ role: 'user', content: [{ type: 'text', text }] }] },
      bytes,
      countTokens(text),
    ],
    [
      'a tool result',
      { ...plain, messages: [{ role: 'tool', toolCallId: 'c', content: text }] },
      bytes,
      countTokens(text),
    ],
    [
      'the name of a call',
      { ...plain, messages: [{ ...asked(''), toolCalls: [{ id: 'c', name: text, arguments: '' }] }] },
      RESERVED_TOKENS.message + bytes,
      ESTIMATED_TOKENS.message + countTokens(text),
    ],
    [
      'its arguments',
      { ...plain, messages: [{ ...asked(''), toolCalls: [{ id: 'c', name: '', arguments: text }] }] },
      RESERVED_TOKENS.message + bytes,
      ESTIMATED_TOKENS.message + countTokens(text),
    ],
    [
      'reasoning',
      { ...plain, messages: [{ ...asked(''), reasoning: [{ origin: 'x', text }] }] },
      bytes,
      countTokens(text),
    ],
    [
      'its signature',
      { ...plain, messages: [{ ...asked(''), reasoning: [{ origin: 'x', text: '', signature: text }] }] },
      bytes,
      countTokens(text),
    ],
    [
      'encrypted reasoning',
      { ...plain, messages: [{ ...asked(''), reasoning: [{ origin: 'x', text: '', data: text }] }] },
      bytes,
      countTokens(text),
    ],
  ])('%s', (_what, input, atMost, likely) => {
    expect(inputTokensAtMost(input)).toBe(inputTokensAtMost(plain) + atMost)
    expect(likelyInput(input)).toBe(likelyInput(plain) + likely)
  })

  test('pictures in steps of tools count as images, not as text', () => {
    const data = 'A'.repeat(1_000_000)
    const shown = (block: { type: string; [member: string]: unknown }): Input => ({
      ...plain,
      messages: [{ role: 'tool', toolCallId: 'c', content: [{ type: 'native', origin: 'openai-responses', block }] }],
    })
    for (const block of [
      { type: 'image_generation_call', result: data },
      { type: 'computer_call_output', output: { image_url: `data:image/png;base64,${data}` } },
    ]) {
      expect(inputTokensAtMost(shown(block))).toBeLessThan(RESERVED_TOKENS.image + 1_000)
      expect(inputTokensAtMost(shown(block))).toBeGreaterThan(RESERVED_TOKENS.image)
    }
  })

  test('another message', () => {
    const two: Input = { ...plain, messages: [...plain.messages, asked(text)] }
    expect(inputTokensAtMost(two)).toBe(inputTokensAtMost(plain) + RESERVED_TOKENS.message + bytes)
    expect(likelyInput(two)).toBe(likelyInput(plain) + ESTIMATED_TOKENS.message + countTokens(text))
  })
})
