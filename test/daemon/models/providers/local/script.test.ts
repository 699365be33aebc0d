import { expect, test } from 'vitest'
import { SCRIPT_FAILURES, type ScriptStep, type Scripts } from '../../../../../src/daemon/models/config.ts'
import type { ChatPart, ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { localProvider } from '../../../../../src/daemon/models/providers/local/provider.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { startGateway, textOf } from '../../../../harness.ts'
import { testCall } from '../../provider-calls.ts'

const call = testCall({
  model: 'script/it',
  temperature: 1,
  maxTokens: 100,
  stream: true,
  timeouts: { attemptMs: 10_000, firstTokenMs: 3_000, stallMs: 2_000 },
})
const whole: ProviderCall = { ...call, stream: false }
const forever = new AbortController().signal
const end = { type: 'end', outcome: 'complete', nativeFinishReason: 'stop', usage: undefined }

function playing(steps: readonly ScriptStep[], asked = call, signal = forever) {
  const clock = createFakeClock()
  const batches = localProvider({ it: steps }, clock).chat(asked, signal)[Symbol.asyncIterator]()
  return { clock, next: async () => (await batches.next()).value as readonly ChatPart[] | undefined }
}

test('each script is a separate model, and without configuration there are none', () => {
  expect(localProvider().models).toEqual(['extract'])
  expect(localProvider({ a: [], b: [] }).models).toEqual(['extract', 'script/a', 'script/b'])
})

test('a stream sends each text at its time, and ends with the tokens of the script', async () => {
  const { clock, next } = playing([
    { wait: 200 },
    { text: 'Hello' },
    { wait: 100 },
    { reasoning: 'hm' },
    { usage: { input: 3, output: 5 } },
    { finish: 'length' },
  ])
  const first = next()
  expect(clock.dueIn(200)).toBe(true)
  clock.advance(200)
  expect(await first).toEqual([{ type: 'text', text: 'Hello' }])
  const second = next()
  clock.advance(100)
  expect(await second).toEqual([{ type: 'reasoning', text: 'hm' }])
  const usage = { inputTokens: 3, outputTokens: 5, estimated: false }
  expect(await next()).toMatchObject([{ type: 'end', outcome: 'length', usage }])
  expect(await next()).toBeUndefined()
  expect(clock.pending).toBe(0)
})

test('a complete answer is sent at its end, in one piece', async () => {
  const { clock, next } = playing([{ text: 'a' }, { wait: 5_000 }, { text: 'b' }, { finish: 'stop' }], whole)
  const answer = next()
  clock.advance(5_000)
  expect(await answer).toEqual([{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }, end])
})

test('a tool is called only if tools were offered', async () => {
  const steps: ScriptStep[] = [{ tool_call: { name: 'f', arguments: '{}' } }, { finish: 'tool_calls' }]
  const options = { tools: [{ name: 'f' }] } as NonNullable<ProviderCall['options']>
  const offered = playing(steps, { ...whole, options })
  expect(await offered.next()).toMatchObject([
    { type: 'tool_call', index: 0, id: 'call_0', name: 'f' },
    { type: 'end' },
  ])
  expect(await playing(steps, whole).next()).toMatchObject([{ type: 'end' }])
})

test.each(SCRIPT_FAILURES)('a script fails with %s as a provider would', async (reason) => {
  await expect(playing([{ fail: reason, retry_after: 7 }]).next()).rejects.toMatchObject({
    name: 'ProviderError',
    reason,
    retryAfterSeconds: 7,
  })
})

test.each<[string, ScriptStep[]]>([
  ['that breaks', [{ text: 'a' }, { break: true }]],
  ['without finish', [{ text: 'a' }]],
])('a script %s is an answer that breaks midway', async (_which, steps) => {
  const { next } = playing(steps)
  await next()
  await expect(next()).rejects.toMatchObject({ reason: 'connection_error', outcome: 'truncated' })
  await expect(playing(steps, whole).next()).rejects.toMatchObject({ outcome: 'truncated' })
})

test.each([
  ['before its first token', [{ stall: true }], call, 3_000],
  ['between tokens', [{ text: 'a' }, { wait: 60_000 }], call, 2_000],
  ['in a whole answer', [{ text: 'a' }, { stall: true }], whole, 10_000],
] as const)('a script that is silent %s ends with the timeout of the call', async (_where, steps, asked, limitMs) => {
  const { clock, next } = playing(steps, asked)
  if (asked.stream && 'text' in steps[0]) await next()
  const answer = expect(next()).rejects.toMatchObject({ reason: 'timeout' })
  clock.advance(limitMs)
  await answer
  expect(clock.pending).toBe(0)
})

test('a script ends at once when the client disconnects', async () => {
  const leave = new AbortController()
  const { clock, next } = playing([{ stall: true }], call, leave.signal)
  const answer = expect(next()).rejects.toMatchObject({ reason: 'aborted' })
  leave.abort()
  await answer
  expect(clock.pending).toBe(0)
})

test('scripted models fail over like any other, and the serving model is billed', async () => {
  const scripts: Scripts = {
    limited: [{ fail: 'rate_limit' }],
    well: [{ text: 'Hello' }, { text: ' world' }, { usage: { input: 3, output: 5 } }, { finish: 'stop' }],
    half: [{ text: 'half' }, { break: true }],
  }
  const gateway = await startGateway({ scripts })
  const { frames, done } = await gateway.stream({ prompt: 'hi', models: ['local/script/limited', 'local/script/well'] })
  expect([textOf(frames), done]).toEqual(['Hello world', true])
  expect(await gateway.usage()).toMatchObject([
    { served_model: 'local/script/well', input_tokens: 3, output_tokens: 5 },
  ])
  const cut = await gateway.stream({ prompt: 'hi', model: 'local/script/half' })
  expect([textOf(cut.frames), cut.done, cut.frames.at(-1)?.type]).toEqual(['half', false, 'error'])
})
