import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type ChatInput,
  toChainEntry,
  toChatRequest,
  toIndex,
  toPrompt,
} from '../../../../src/cli/commands/chat/input.ts'
import { MESSAGE_CONTENT_BYTES } from '../../../../src/shared/spec-limits.ts'
import { ChatRequest } from '../../../../src/shared/wire/chat.ts'

const NOTHING: ChatInput = {
  models: [],
  fallbacks: [],
  chain: undefined,
  triggers: [],
  commit: undefined,
  index: undefined,
  rag: true,
  policy: undefined,
  shield: undefined,
  system: undefined,
  temperature: undefined,
  maxTokens: undefined,
  conversation: undefined,
  user: undefined,
}
const request = (input: Partial<ChatInput>, defaults = {}) =>
  toChatRequest({ ...NOTHING, models: ['a/b'], ...input }, { prompt: 'hi' }, defaults, true)

describe('the prompt', () => {
  test('is files, then the piped text, then the words, set apart by blank lines', () => {
    const prompt = toPrompt({ files: [{ name: 'a.ts', text: 'x\n' }], piped: 'diff\n\n', words: ['Why', 'this?'] })
    expect(prompt).toBe('```a.ts\nx\n```\n\ndiff\n\nWhy this?')
  })

  test('fences a file so that the file cannot end its own fence', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('`', 'a', '\n') }), (text) => {
        const [fence = ''] = /^`+/.exec(toPrompt({ files: [{ name: 'f', text }], piped: '', words: ['?'] })) ?? []
        expect(text).not.toContain(fence)
        expect(fence.length).toBeGreaterThanOrEqual(3)
      }),
    )
  })

  test('is empty when there is nothing in it', () => {
    expect(toPrompt({ files: [], piped: ' \n', words: [] })).toBe('')
  })

  test('may have exactly as many bytes as the gateway takes', () => {
    expect(toPrompt({ files: [], piped: 'é'.repeat(MESSAGE_CONTENT_BYTES / 2), words: [] })).toHaveLength(131_072)
    expect(() => toPrompt({ files: [], piped: 'é'.repeat(MESSAGE_CONTENT_BYTES / 2), words: ['?'] })).toThrow('at most')
  })
})

describe('the request', () => {
  test('contains only the requested members', () => {
    expect(request({})).toEqual({ prompt: 'hi', model: 'a/b', index: 'Zero-Knowledge', stream: true })
  })

  test('uses model, index and policy of the profile, unless a flag overrides them', () => {
    const defaults = { model: 'p/m', index: 'handbook', policy: 'internal' }
    expect(request({ models: [] }, defaults)).toMatchObject({
      model: 'p/m',
      index: 'handbook',
      smltp_policy: 'internal',
    })
    expect(request({ index: 'none', policy: 'public' }, defaults)).toMatchObject({
      model: 'a/b',
      index: 'Zero-Knowledge',
      smltp_policy: 'public',
    })
    expect(toIndex(undefined, 'none')).toBe('Zero-Knowledge')
  })

  test('without any model is refused before anything is sent', () => {
    expect(() => request({ models: [] })).toThrow('no model given')
  })

  test('builds a chain from -m, --fallback or --chain', () => {
    expect(request({ models: ['a/b', 'c/d'], fallbacks: ['e/f'] })).toMatchObject({
      model: 'a/b',
      fallback_models: ['c/d', 'e/f'],
    })
    expect(request({ models: [], chain: 'a/b,c/d@8s,e/f@8s/500ms' })).toMatchObject({
      models: [
        { model: 'a/b' },
        { model: 'c/d', timeout_ms: 8_000 },
        { model: 'e/f', timeout_ms: 8_000, first_token_timeout_ms: 500 },
      ],
    })
    expect(toChainEntry('a/b@2024-01')).toEqual({ model: 'a/b@2024-01' })
  })

  test.each([
    [{ models: ['a/b', 'c/d', 'e/f', 'g/h'] }, 'at most 2'],
    [{ models: ['no model'] }, "'no model' is not a model"],
    [{ models: ['a/b'], chain: 'c/d' }, 'cannot be combined'],
    [{ models: [], chain: 'a/b,c/d,e/f,g/h' }, '1 to 3'],
    [{ temperature: 'hot' }, '--temperature must be a number'],
    [{ maxTokens: '' }, '--max-tokens must be a number'],
  ])('%j is refused', (input, message) => {
    expect(() => request(input)).toThrow(message)
  })

  test('with every flag set satisfies the schema of the gateway', () => {
    const body = request({
      models: ['a/b'],
      fallbacks: ['c/d'],
      triggers: ['timeout', 'rate_limit'],
      commit: 'complete',
      rag: false,
      shield: 'strict',
      system: 'Be brief',
      temperature: '0.2',
      maxTokens: '100',
      conversation: 'conv-1',
      user: 'a'.repeat(24),
    })
    expect(ChatRequest.parse(body)).toMatchObject({
      redundancy: { on: ['timeout', 'rate_limit'], commit: 'complete' },
      use_rag: false,
      prompt_shield: { enabled: true, policy: 'strict' },
      temperature: 0.2,
    })
    expect(request({ commit: 'first_token' })).toMatchObject({ redundancy: { commit: 'first_token' } })
    expect(request({ shield: '' })).toMatchObject({ prompt_shield: { enabled: true } })
    expect(request({ shield: false })).toMatchObject({ prompt_shield: { enabled: false } })
  })
})
