import { describe, expect, test } from 'vitest'
import { toThoughtSignature } from '../../../../../src/daemon/gateway/surfaces/gemini/reasoning.ts'
import { GenerateContentResponse, GoogleError } from '../../../../../src/shared/wire/gemini.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyCut, replyJson, replyRaw } from '../../../../upstream.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

const MODEL = '/v1beta/models/test/any'
const usage = { prompt_tokens: 12, completion_tokens: 7 }
const say = (text: string) => [{ role: 'user', parts: [{ text }] }]
const hello = { contents: say('Hi') }

/** The responses of a stream with `alt=sse`. Older clients throw an error if text without `data:` follows. */
const toResponses = (text: string, rest = '') =>
  text
    .slice(0, text.length - rest.length)
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => {
      expect(frame.startsWith('data: ')).toBe(true)
      const response = JSON.parse(frame.slice('data: '.length))
      expect(GenerateContentResponse.safeParse(response).error).toBeUndefined()
      return response
    })

// biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
const textOf = (responses: any[]) =>
  responses.flatMap(({ candidates: [{ content }] }) => content?.parts ?? []).flatMap(({ text = '' }) => text)

describeEachEngine("an answer in Gemini's words", (engine) => {
  test("complete: only Gemini's members, and `gateway`; one usage row", async () => {
    const gateway = await startGateway({ engine })
    const details = {
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 2 },
    }
    gateway.upstream.script(replyJson(chatJson('Forty-two.', { usage: { ...usage, ...details } })))
    const { status, headers, body } = await gateway.call('POST', `${MODEL}:generateContent`, hello)
    expect([status, body]).toEqual([
      200,
      {
        candidates: [{ content: { role: 'model', parts: [{ text: 'Forty-two.' }] }, finishReason: 'STOP', index: 0 }],
        usageMetadata: {
          promptTokenCount: 12,
          candidatesTokenCount: 5,
          totalTokenCount: 19,
          thoughtsTokenCount: 2,
          cachedContentTokenCount: 4,
        },
        modelVersion: 'test/any',
        responseId: String(headers['x-request-id']).replace('req-', ''),
        gateway: expect.objectContaining({ served_model: 'test/any', requested_model: 'test/any' }),
      },
    ])
    expect(await gateway.usage()).toEqual([
      expect.objectContaining({
        route: '/api/external/v1beta/models/{model}:generateContent',
        outcome: 'complete',
        streamed: 0,
        input_tokens: 12,
        output_tokens: 7,
      }),
    ])
  })

  test('streamed: pieces, then the finish reason with the usage; `gateway` is in the first piece', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyRaw(chatStream(['Forty', '-two'], { usage })))
    const { headers, text } = await gateway.call('POST', `${MODEL}:streamGenerateContent?alt=sse`, hello)
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8')
    const responses = toResponses(text)
    expect(textOf(responses).join('')).toBe('Forty-two')
    expect(responses[0].gateway).toMatchObject({ served_model: 'test/any' })
    expect(responses.slice(1).some(({ gateway: again }) => again)).toBe(false)
    expect(responses.slice(0, -1).some(({ candidates: [{ finishReason }] }) => finishReason)).toBe(false)
    expect(responses.at(-1)).toMatchObject({
      candidates: [{ finishReason: 'STOP', index: 0 }],
      usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 7, totalTokenCount: 19 },
    })
    expect(await gateway.usage()).toMatchObject([{ outcome: 'complete', streamed: 1, output_tokens: 7 }])
  })

  test('a repeat with its Idempotency-Key gets the same bytes; another model or another form is another request', async () => {
    const gateway = await startGateway({ engine })
    for (const action of ['generateContent', 'streamGenerateContent', 'streamGenerateContent?alt=sse']) {
      const isStream = action.startsWith('stream')
      gateway.upstream.script(
        isStream ? replyRaw(chatStream(['Once'], { usage })) : replyJson(chatJson('Once', { usage })),
      )
      const options = { headers: { 'idempotency-key': action.replace('?', '-') } }
      const ask = (path = `${MODEL}:${action}`) => gateway.call('POST', path, hello, options)
      const [first, second] = [await ask(), await ask()]
      expect([first.status, second.text, second.headers['idempotent-replayed']]).toEqual([200, first.text, 'true'])
      expect(second.headers['content-type']).toBe(first.headers['content-type'])
      const other = await ask(`/v1beta/models/test/other:${action}`)
      expect([other.status, other.body.error.status]).toEqual([422, 'INVALID_ARGUMENT'])
    }
    const sse = { headers: { 'idempotency-key': 'streamGenerateContent-alt=sse' } }
    expect((await gateway.call('POST', `${MODEL}:streamGenerateContent`, hello, sse)).status).toBe(422)
    expect([(await gateway.usage()).length, gateway.upstream.requests.length]).toEqual([3, 3])
  })
})

const shared = sharedGateway()
const gateway = (): Gateway => shared.current
const post = (body: object, action = 'generateContent', options = {}) =>
  gateway().call('POST', `${MODEL}:${action}`, body, options)
const sent = () => gateway().upstream.requests.at(-1)?.body as Record<string, unknown>

describe('a stream', () => {
  test('without `alt=sse` is one JSON array', async () => {
    gateway().upstream.script(replyRaw(chatStream(['Forty', '-two'], { usage })))
    const { headers, body } = await post(hello, 'streamGenerateContent')
    expect(headers['content-type']).toBe('application/json')
    for (const response of body) expect(GenerateContentResponse.safeParse(response).error).toBeUndefined()
    expect(textOf(body).join('')).toBe('Forty-two')
    expect(body.at(-1)).toMatchObject({
      candidates: [{ finishReason: 'STOP' }],
      usageMetadata: { totalTokenCount: 19 },
    })
  })

  test('sends a call whole, in the order of the calls', async () => {
    const piece = (index: number, text: string, more: object = {}) =>
      `data: ${JSON.stringify({
        choices: [
          {
            index: 0,
            delta: { tool_calls: [{ index, ...more, function: { arguments: text, ...more } }] },
            finish_reason: null,
          },
        ],
      })}\n\n`
    gateway().upstream.script(
      replyRaw(
        piece(0, '{"q":', { id: 'call_a', name: 'find' }) +
          piece(1, '', { id: 'call_b', name: 'look' }) +
          piece(0, '1}') +
          piece(1, '{}') +
          chatStream([], { finishReason: 'tool_calls', usage }),
      ),
    )
    const tools = [{ functionDeclarations: [{ name: 'find' }, { name: 'look' }] }]
    const { text } = await post({ ...hello, tools }, 'streamGenerateContent?alt=sse')
    const responses = toResponses(text)
    expect(responses.flatMap(({ candidates: [{ content }] }) => content?.parts ?? [])).toEqual([
      { functionCall: { id: 'call_a', name: 'find', args: { q: 1 } } },
      { functionCall: { id: 'call_b', name: 'look', args: {} } },
    ])
    expect(responses.at(-1).candidates[0].finishReason).toBe('STOP')
  })

  test.each(['streamGenerateContent?alt=sse', 'streamGenerateContent'])(
    'that breaks ends with an error and never with STOP (%s)',
    async (action) => {
      const whole = chatStream(['Forty', '-two'], { usage })
      gateway().upstream.script(replyCut(whole, whole.indexOf('-two') + 10, 'reset'))
      const { text, body } = await post(hello, action)
      const rest = /^\{"error":.*\n\n$/m.exec(text)?.[0]
      const responses = action.endsWith('sse') ? toResponses(text, rest) : body
      if (action.endsWith('sse')) expect(JSON.parse(rest ?? '')).toEqual({ error: responses.at(-1).error })
      expect(responses.at(-1)).toMatchObject({
        candidates: [{ finishReason: 'OTHER', finishMessage: expect.stringContaining('incomplete'), index: 0 }],
        error: { code: 502, status: 'UNAVAILABLE', message: expect.stringContaining('incomplete') },
      })
      expect(text).not.toContain('"STOP"')
      expect(responses.at(-1).usageMetadata).toBeUndefined()
    },
  )
})

test('an answer that the token limit cut off, or a filter, has its own finish reason', async () => {
  for (const [finishReason, expected] of [
    ['length', 'MAX_TOKENS'],
    ['content_filter', 'SAFETY'],
  ] as const) {
    gateway().upstream.script(replyRaw(chatStream(['Forty'], { finishReason, usage })))
    const { body } = await post(hello, 'streamGenerateContent')
    expect(body.at(-1).candidates).toEqual([{ finishReason: expected, index: 0 }])
  }
})

test('the actions are also below /v1, where newer clients of Google look for them', async () => {
  gateway().upstream.script(replyJson(chatJson('Hello.')), replyRaw(chatStream(['Hel', 'lo.'])))
  const whole = await gateway().call('POST', '/v1/models/test/any:generateContent', hello)
  expect([whole.status, textOf([whole.body])]).toEqual([200, ['Hello.']])
  const streamed = await gateway().call('POST', '/v1/models/test%2Fany:streamGenerateContent?alt=sse', hello)
  expect(textOf(toResponses(streamed.text)).join('')).toBe('Hello.')
  const failed = await gateway().call('POST', '/api/external/v1/models/test/any:countTokens', {})
  expect([failed.status, failed.body.error.status]).toEqual([400, 'INVALID_ARGUMENT'])
  const unknown = await gateway().call('POST', '/v1/models/test/any:doSomething', hello)
  expect([unknown.status, unknown.body.error.type]).toEqual([405, 'invalid_request_error'])
})

describe('a request', () => {
  test('reaches the model with its instructions, options, tools and images', async () => {
    await post({
      system_instruction: { parts: [{ text: 'Be brief.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'What is this?' }, { inline_data: { mime_type: 'image/png', data: '-_8=' } }] },
      ],
      tools: [
        {
          function_declarations: [
            {
              name: 'find',
              description: 'Finds',
              parameters: {
                type: 'OBJECT',
                property_ordering: ['b', 'a'],
                properties: {
                  a: { type: 'STRING', nullable: true },
                  b: { type: 'ARRAY', items: { type: 'INTEGER' }, minItems: '1' },
                },
                required: ['a'],
              },
            },
          ],
        },
      ],
      tool_config: { function_calling_config: { mode: 'ANY', allowed_function_names: ['find'] } },
      generation_config: {
        max_output_tokens: 900,
        temperature: 0.5,
        stop_sequences: ['END'],
        response_mime_type: 'application/json',
        response_schema: { type: 'OBJECT', properties: { name: { type: 'STRING' } } },
      },
    })
    expect(sent()).toMatchObject({
      model: 'any',
      max_tokens: 900,
      temperature: 0.5,
      stop: ['END'],
      messages: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,+/8=' } },
          ],
        },
      ],
      tools: [
        {
          type: 'function',
          function: {
            name: 'find',
            description: 'Finds',
            parameters: {
              type: 'object',
              properties: {
                b: { type: 'array', items: { type: 'integer' }, minItems: 1 },
                a: { type: ['string', 'null'] },
              },
              required: ['a'],
            },
          },
        },
      ],
      tool_choice: { type: 'function', function: { name: 'find' } },
      response_format: {
        type: 'json_schema',
        json_schema: { schema: { type: 'object', properties: { name: { type: 'string' } } } },
      },
    })
    expect(JSON.stringify((sent().tools as object[])[0])).toMatch(/"b":.*"a":/)
  })

  test('names its model in the path, with slashes and colons, escaped or not, below both prefixes', async () => {
    for (const path of [
      '/v1beta/models/test/llama3:8b',
      '/v1beta/models/test%2Fllama3%3A8b',
      '/api/external/v1beta/models/test/llama3:8b',
    ]) {
      expect((await gateway().call('POST', `${path}:generateContent`, hello)).body.modelVersion).toBe('test/llama3:8b')
      expect(sent().model).toBe('llama3:8b')
    }
  })

  test('sends no limit and no temperature that the client did not set', async () => {
    await post(hello)
    expect(sent()).toEqual({ model: 'any', stream: false, messages: [{ role: 'user', content: 'Hi' }] })
  })

  test('matches function responses to calls by id, or by name and order', async () => {
    const { status } = await post({
      contents: [
        ...say('Look.'),
        {
          role: 'model',
          parts: [
            { functionCall: { name: 'look', args: { at: 1 } } },
            { functionCall: { name: 'look', args: { at: 2 } } },
            { functionCall: { id: 'mine', name: 'find' } },
          ],
        },
        {
          role: 'user',
          parts: [
            { functionResponse: { id: 'mine', name: 'find', response: { found: true } } },
            { functionResponse: { name: 'look', response: { output: 'one' } } },
            { functionResponse: { name: 'look', response: { error: 'two' } } },
            { text: 'Well?' },
          ],
        },
      ],
    })
    expect(status).toBe(200)
    const messages = sent().messages as {
      role: string
      tool_call_id?: string
      content: string
      tool_calls?: { id: string }[]
    }[]
    const [first, second, third] = messages[1]?.tool_calls ?? []
    expect(third?.id).toBe('mine')
    expect(messages.slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'mine', content: '{"found":true}' },
      { role: 'tool', tool_call_id: first?.id, content: '{"output":"one"}' },
      { role: 'tool', tool_call_id: second?.id, content: '{"error":"two"}' },
      { role: 'user', content: 'Well?' },
    ])
    expect(first?.id).not.toBe(second?.id)
  })

  test('has at most as many messages as the operator allows, and each function response is one', async () => {
    const limited = await startGateway({ requestLimits: { messages: 4 } })
    const calls = Array(3).fill({ functionCall: { name: 'look' } })
    const contents = (count: number) => [
      { role: 'model', parts: calls },
      { role: 'user', parts: Array(count).fill({ functionResponse: { name: 'look' } }) },
      ...say('Well?'),
    ]
    for (const action of ['generateContent', 'streamGenerateContent']) {
      limited.upstream.fallback(replyJson(chatJson('Yes.')))
      const { status, body } = await limited.call('POST', `${MODEL}:${action}`, { contents: contents(3) })
      const { message } = (Array.isArray(body) ? body[0] : body).error
      expect([status, message]).toEqual([400, expect.stringContaining('at most 4')])
      expect(limited.upstream.requests).toEqual([])
    }
    expect((await limited.call('POST', `${MODEL}:generateContent`, { contents: contents(2) })).status).toBe(200)
  })

  test('tells which fields the provider has no place for, and what became of the thinking budget', async () => {
    const { body } = await post({
      ...hello,
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
      labels: { team: 'ops' },
      generationConfig: { mediaResolution: 'MEDIA_RESOLUTION_LOW', thinkingConfig: { thinkingBudget: 2048 } },
    })
    expect(sent().reasoning_effort).toBe('medium')
    expect(body.gateway).toMatchObject({
      changed: [{ field: 'generationConfig.thinkingConfig', asked: 2048, used: 'medium', why: 'provider' }],
    })
    expect(body.gateway.dropped).toEqual(
      ['safetySettings', 'labels', 'generationConfig.mediaResolution'].map((field) => ({ field, why: 'provider' })),
    )
  })

  test('keeps the reasoning of other providers in the signature of the call', async () => {
    const reply = {
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            reasoning_content: 'Let me look.',
            tool_calls: [{ id: 'call_a', type: 'function', function: { name: 'look', arguments: '{}' } }],
          },
          finish_reason: 'tool_calls',
        },
      ],
      usage,
    }
    gateway().upstream.script(replyJson(reply))
    const asked = { contents: say('Look.'), tools: [{ functionDeclarations: [{ name: 'look' }] }] }
    const { body } = await post(asked)
    const [part] = body.candidates[0].content.parts
    expect(part).toEqual({
      functionCall: { id: 'call_a', name: 'look', args: {} },
      thoughtSignature: expect.stringMatching(/^[A-Za-z0-9+/]+={0,2}$/),
    })
    expect(JSON.stringify(body.candidates)).not.toContain('Let me look.')
    await post({
      ...asked,
      contents: [
        ...asked.contents,
        body.candidates[0].content,
        { role: 'user', parts: [{ functionResponse: { name: 'look', response: {} } }] },
      ],
    })
    const [, answer] = sent().messages as object[]
    expect(answer).toMatchObject({ role: 'assistant', tool_calls: [{ id: 'call_a' }] })
  })

  test('shows thoughts if the request asks for them', async () => {
    const stream = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { reasoning_content: 'Hm.' }, finish_reason: null }] })}\n\n`
    const ask = async (includeThoughts: boolean) => {
      gateway().upstream.script(replyRaw(stream + chatStream(['Hello'], { usage })))
      const { body } = await post(
        { ...hello, generationConfig: { thinkingConfig: { includeThoughts } } },
        'streamGenerateContent',
      )
      // biome-ignore lint/suspicious/noExplicitAny: as above
      return body.flatMap(({ candidates: [{ content }] }: any) => content?.parts ?? [])
    }
    expect(await ask(true)).toEqual([{ text: 'Hm.', thought: true }, { text: 'Hello' }])
    expect(await ask(false)).toEqual([{ text: 'Hello' }])
  })

  test.each([
    [{ contents: [] }, 'contents'],
    [{ contents: [{ role: 'assistant', parts: [] }] }, 'role must be user or model'],
    [{ contents: [{ role: 'user', parts: [{ text: 7 }] }] }, 'text must be a string'],
    [{ ...hello, generationConfig: { candidateCount: 2 } }, 'candidateCount must be 1'],
    [{ ...hello, generationConfig: { responseModalities: ['IMAGE'] } }, 'answers are text'],
    [{ ...hello, generationConfig: { responseSchema: { type: 'STRING' } } }, 'responseMimeType'],
    [{ ...hello, cachedContent: 'cachedContents/1' }, 'guards cannot inspect it'],
    [{ contents: [{ parts: [{ functionResponse: { name: 'look', response: {} } }] }] }, 'must follow a functionCall'],
    [{ contents: [{ parts: [{ fileData: { fileUri: 'http://example.com/a.png' } }] }] }, 'https'],
    [{ contents: [{ parts: [{ inlineData: { mimeType: 'application/pdf', data: 'aGk=' } }] }] }, 'does not support'],
    [{ ...hello, tools: [{ computerUse: {} }] }, 'does not support tools of type computerUse'],
  ])('that is invalid gets a clear 400: %#', async (body, message) => {
    const before = gateway().upstream.requests.length
    const answer = await post(body)
    expect([answer.status, answer.body.error]).toEqual([
      400,
      expect.objectContaining({ code: 400, status: 'INVALID_ARGUMENT', message: expect.stringContaining(message) }),
    ])
    expect(GoogleError.safeParse(answer.body).error).toBeUndefined()
    expect(gateway().upstream.requests).toHaveLength(before)
  })
})

describe('an error', () => {
  test.each([
    ['POST', '/v1beta/models/nowhere/x:generateContent', 400, 'INVALID_ARGUMENT', 'VALIDATION_ERROR'],
    ['GET', '/v1beta/models/nowhere/x', 404, 'NOT_FOUND', 'MODEL_NOT_FOUND'],
    ['GET', '/v1beta/files', 404, 'NOT_FOUND', 'NOT_FOUND'],
    ['POST', '/v1beta/models/test/any:predict', 405, 'UNIMPLEMENTED', 'METHOD_NOT_ALLOWED'],
  ])('has the shape of Google: %s %s', async (method, path, code, status, reason) => {
    const answer = await gateway().call(method, path, method === 'POST' ? hello : undefined)
    expect([answer.status, answer.body]).toEqual([
      code,
      {
        error: {
          code,
          status,
          message: expect.any(String),
          details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'aigw' }],
        },
        success: false,
        retryable: false,
        request_id: answer.headers['x-request-id'],
      },
    ])
  })

  test('of a rate limit tells the delay before a retry', async () => {
    gateway().upstream.script(
      replyJson({ error: { message: 'slow' } }, { status: 429, headers: { 'retry-after': '7' } }),
    )
    const { status, body } = await post(hello)
    expect([status, body.error.status]).toEqual([429, 'RESOURCE_EXHAUSTED'])
    expect(body.error.details).toContainEqual({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '7s' })
  })

  test('of a guard blocks the text in every field of a request', async () => {
    const EMAIL = 'ada.lovelace@analytical.org'
    const { post: ask } = await addGuardedTenant(gateway(), { policy: { pii: { enabled: true, action: 'block' } } })
    const called = { role: 'model', parts: [{ functionCall: { name: 'look', args: { to: EMAIL } } }] }
    for (const body of [
      { contents: say(EMAIL) },
      { ...hello, systemInstruction: { parts: [{ text: EMAIL }] } },
      { contents: [...say('Hi'), called] },
      {
        contents: [
          ...say('Hi'),
          { role: 'model', parts: [{ functionCall: { name: 'look' } }] },
          { role: 'user', parts: [{ functionResponse: { name: 'look', response: { deep: [{ er: EMAIL }] } } }] },
        ],
      },
      { contents: [...say('Hi'), { role: 'model', parts: [{ text: EMAIL, thought: true }] }] },
      { contents: [...say('Hi'), { role: 'model', parts: [{ executableCode: { code: `print("${EMAIL}")` } }] }] },
      { contents: [{ parts: [{ fileData: { mimeType: 'image/png', fileUri: `https://example.com/?u=${EMAIL}` } }] }] },
      { ...hello, tools: [{ functionDeclarations: [{ name: 'look', description: EMAIL }] }] },
      {
        ...hello,
        tools: [{ functionDeclarations: [{ name: 'look', parameters: { type: 'OBJECT', description: EMAIL } }] }],
      },
      { ...hello, tools: [{ functionDeclarations: [{ name: 'look', response: { description: EMAIL } }] }] },
      { ...hello, generationConfig: { stopSequences: [EMAIL] } },
      { ...hello, generationConfig: { responseMimeType: 'application/json', responseSchema: { description: EMAIL } } },
      { ...hello, safetySettings: [{ category: EMAIL }] },
      { ...hello, labels: { owner: EMAIL } },
      {
        contents: [
          ...say('Hi'),
          { role: 'model', parts: [{ functionCall: { name: 'look' }, thoughtSignature: EMAIL }] },
        ],
      },
      {
        contents: [
          ...say('Hi'),
          {
            role: 'model',
            parts: [
              {
                functionCall: { name: 'look' },
                thoughtSignature: toThoughtSignature([{ origin: 'anthropic', text: EMAIL, signature: 'c2ln' }]),
              },
            ],
          },
        ],
      },
    ]) {
      const { status, body: answer } = await ask(`${MODEL}:generateContent`, body)
      expect([status, answer.error?.status], JSON.stringify(body)).toEqual([403, 'PERMISSION_DENIED'])
      expect(answer).toMatchObject({ verdict: 'BLOCK' })
    }
  })
})
