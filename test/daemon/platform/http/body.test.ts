import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { JSON_VALUES, parseBody, parsingBody, readBody } from '../../../../src/daemon/platform/http/body.ts'
import { BodyMemory } from '../../../../src/daemon/platform/http/body-memory.ts'
import { GatewayError } from '../../../../src/shared/errors.ts'
import { REQUEST_TIMEOUT_MS } from '../../../../src/shared/spec-limits.ts'
import { GenerateContentRequest } from '../../../../src/shared/wire/gemini.ts'
import { longList } from '../../../../src/shared/wire/long-list.ts'
import { MessagesRequest } from '../../../../src/shared/wire/messages.ts'
import { OpenAiChatRequest } from '../../../../src/shared/wire/openai.ts'
import { ResponsesRequest } from '../../../../src/shared/wire/responses.ts'
import { createFakeClock } from '../../../fake-clock.ts'

test('a body that stalls is aborted after the request timeout, and no timer is left', async () => {
  const clock = createFakeClock()
  const request = Object.assign(new PassThrough(), { headers: {}, complete: false })
  const body = readBody(request, 100, clock, new AbortController().signal, new BodyMemory(1e9).open('t'))
  request.write('{"half":')
  clock.advance(REQUEST_TIMEOUT_MS)
  await expect(body).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' })
  expect(clock.pending).toBe(0)
})

test('a body of unknown length is the same bytes, whatever its chunks', async () => {
  for (const [size, chunk] of [
    [200_000, 1],
    [200_000, 70_000],
    [65_536, 65_536],
    [5, 2],
  ] as const) {
    const bytes = Buffer.from(Array.from({ length: size }, (_, at) => at % 251))
    const request = Object.assign(new PassThrough(), { headers: {}, complete: false })
    const clock = createFakeClock()
    const body = readBody(request, 200_000, clock, new AbortController().signal, new BodyMemory(1e9).open('t'))
    for (let at = 0; at < size; at += chunk) request.write(bytes.subarray(at, at + chunk))
    request.end()
    expect((await body).equals(bytes)).toBe(true)
  }
})

test('a body that is nested too deep, or has too many values, is rejected before it is parsed', () => {
  const parse = (text: string) => {
    const steps = parsingBody(Buffer.from(text), z.unknown(), new BodyMemory(1e9).open('t'), 3)
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value
    }
  }
  expect(parse('[[[1]],"[[[[",{"a":"\\"[[[[","b\\\\":[]}]')).toEqual([[[1]], '[[[[', { a: '"[[[[', 'b\\': [] }])
  expect(() => parse('[[[[1]]]]')).toThrow('at most 3 levels deep')
  expect(() => parse('[[[['.repeat(1_000_000))).toThrow('at most 3 levels deep')
  expect(() => parse('{"a":[{"b":"\\"')).toThrow('must be a JSON object')
  expect(() => parse(`[${'{},'.repeat(500_001)}{}]`)).toThrow(`at most ${JSON_VALUES} values`)
})

test('a large body may take longer while it arrives, but never below the minimum rate', async () => {
  const read = () => {
    const clock = createFakeClock()
    const request = Object.assign(new PassThrough(), { headers: {}, complete: false })
    return {
      clock,
      request,
      body: readBody(request, 1e8, clock, new AbortController().signal, new BodyMemory(1e9).open('t')),
    }
  }
  const piece = Buffer.alloc(2 * 1024 * 1024, 'x')
  const steady = read()
  for (let seconds = 0; seconds < 300; seconds += 20) {
    steady.request.write(piece)
    await new Promise(setImmediate)
    steady.clock.advance(20_000)
  }
  steady.request.end()
  expect((await steady.body).length).toBe(15 * piece.length)
  expect(steady.clock.pending).toBe(0)

  const trickling = read()
  trickling.request.write(piece)
  const refused = expect(trickling.body).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' })
  for (let seconds = 0; seconds < 60; seconds += 1) {
    trickling.request.write('x')
    await new Promise(setImmediate)
    trickling.clock.advance(1000)
  }
  await refused
  expect(trickling.clock.pending).toBe(0)
})

/** The result of a check, or the error as a client sees it, and the number of steps. */
function checkInSteps(raw: Buffer, schema: z.ZodType) {
  const work = parsingBody(raw, schema, new BodyMemory(1e9).open('t'))
  let steps = 0
  try {
    for (;;) {
      const { done, value } = work.next()
      if (done) return { steps, outcome: { value } }
      steps++
    }
  } catch (error) {
    return { steps, outcome: documentOf(error) }
  }
}

function checkAtOnce(raw: Buffer, schema: z.ZodType) {
  try {
    return { value: parseBody(raw, schema, new BodyMemory(1e9).open('t')) }
  } catch (error) {
    return documentOf(error)
  }
}

function documentOf(error: unknown) {
  expect(error).toBeInstanceOf(GatewayError)
  const { code, message, details } = error as GatewayError
  return { code, message, details }
}

const LONG = 3_000
const manyOf = <Item>(item: Item): unknown[] => Array.from({ length: LONG }, () => item)
const withOne = (items: readonly unknown[], at: number, item: unknown) => items.with(at, item)

const openAi = (messages: unknown) => ({ model: 'm', messages })
const anthropic = (messages: unknown) => ({ model: 'm', max_tokens: 1, messages })
const responses = (input: unknown) => ({ model: 'm', input })
const gemini = (contents: unknown) => ({ contents })
const user = { role: 'user', content: 'Hello' }
const textPart = { type: 'text', text: 'Hello' }
const inputText = { type: 'input_text', text: 'Hello' }
const cachedPart = (control: object) => ({ ...textPart, cache_control: control })

test.each<[name: string, schema: z.ZodType, lists: ((items: unknown[]) => object)[], item: object, wrong: unknown[]]>([
  [
    'messages of chat completions',
    OpenAiChatRequest,
    [openAi],
    user,
    [{ role: 'user', content: 5 }, 'no', { role: 'x' }],
  ],
  [
    'parts of chat completions',
    OpenAiChatRequest,
    [
      (content) => openAi([user, { role: 'user', content }]),
      (content) => openAi([{ role: 'tool', tool_call_id: 'a', content }]),
    ],
    textPart,
    [{ type: 'text' }, { type: 'input_audio', input_audio: { data: 'AAAA', format: 'W V' } }],
  ],
  [
    'tools of chat completions',
    OpenAiChatRequest,
    [(tools) => ({ ...openAi([user]), tools })],
    { type: 'function', function: { name: 'a' } },
    [{ type: 'function' }],
  ],
  [
    'reasoning of chat completions',
    OpenAiChatRequest,
    [(reasoning_details) => openAi([user, { role: 'assistant', reasoning_details }])],
    { origin: 'a', text: 'b', other: 1 },
    [7],
  ],
  ['messages of Messages', MessagesRequest, [anthropic], user, [{ role: 'user' }, { role: 'user', content: [5] }]],
  [
    'blocks of Messages',
    MessagesRequest,
    [
      (content) => anthropic([{ role: 'user', content }]),
      (content) => anthropic([user, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content }] }]),
      (system) => ({ ...anthropic([user]), system }),
    ],
    textPart,
    [{ type: 'text' }, cachedPart({ type: 'ephemeral', tll: '5m' }), cachedPart({ type: 'ephemeral', ttl: 'x' })],
  ],
  ['items of Responses', ResponsesRequest, [responses], user, [{ role: 'user' }, { type: 'function_call', name: 'a' }]],
  [
    'parts of Responses',
    ResponsesRequest,
    [(content) => responses([{ role: 'user', content }])],
    inputText,
    [{ type: 'input_text' }],
  ],
  [
    'contents of Gemini',
    GenerateContentRequest,
    [gemini],
    { role: 'user', parts: [{ text: 'Hello' }] },
    [
      { role: 'x', parts: [] },
      { role: 'user', parts: [{ inline_data: { mimeType: 'no', data: 'AAAA' } }] },
    ],
  ],
  [
    'parts of Gemini',
    GenerateContentRequest,
    [(parts) => gemini([{ role: 'user', parts }])],
    { text: 'a' },
    [{ text: 5 }],
  ],
])('a long list is checked in steps, with the same result: %s', (_, schema, lists, item, wrong) => {
  for (const toBody of lists) {
    expect(checkAtOnce(Buffer.from(JSON.stringify(toBody([item]))), schema)).toHaveProperty('value')
    const valid = Buffer.from(JSON.stringify(toBody(manyOf(item))))
    const { steps, outcome } = checkInSteps(valid, schema)
    const reading = checkInSteps(valid, z.unknown()).steps
    expect(steps - reading).toBeGreaterThanOrEqual(LONG / 256)
    expect(outcome).toEqual(checkAtOnce(valid, schema))
    expect(outcome).toHaveProperty('value')
    for (const one of wrong) {
      // The second fault must not change the error of the first.
      for (const items of [
        withOne(manyOf(item), 1_234, one),
        withOne(withOne(manyOf(item), 2_999, one), 300, wrong[0]),
      ]) {
        const invalid = Buffer.from(JSON.stringify({ ...toBody(items), user_id: 5 }))
        const refused = checkInSteps(invalid, schema).outcome
        expect(refused).toEqual(checkAtOnce(invalid, schema))
        expect(refused).toHaveProperty('code', 'VALIDATION_ERROR')
        const only = Buffer.from(JSON.stringify(toBody(items)))
        const named = checkInSteps(only, schema).outcome
        expect(named).toEqual(checkAtOnce(only, schema))
        expect(named).toHaveProperty('code', 'VALIDATION_ERROR')
      }
    }
  }
})

test('a list of only invalid items is rejected with its first item, however long it is', () => {
  const body = Buffer.from(JSON.stringify(openAi(Array.from({ length: 200_000 }, () => ({ role: 'user' })))))
  expect(checkInSteps(body, OpenAiChatRequest).outcome).toMatchObject({
    code: 'VALIDATION_ERROR',
    details: { field: 'messages.0.content' },
  })
})

test('lists of lists are checked in steps', () => {
  let checked = 0
  const item = z.custom<string>((value) => {
    checked++
    return typeof value === 'string'
  })
  const schema = z.object({ rows: longList(z.array(z.object({ cells: longList(z.array(item)) }))) })
  const rows = Array.from({ length: 300 }, () => ({ cells: Array.from({ length: 300 }, () => 'a') }))
  const work = parsingBody(Buffer.from(JSON.stringify({ rows })), schema, new BodyMemory(1e9).open('t'))
  let before = 0
  for (let step = work.next(); !step.done; step = work.next()) {
    expect(checked - before).toBeLessThanOrEqual(2 * 256)
    before = checked
  }
  expect(checked).toBe(90_000)
})
