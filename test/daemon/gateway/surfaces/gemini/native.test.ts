import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Gateway, startGateway } from '../../../../harness.ts'
import { sharedResources } from '../../../../shared-resources.ts'
import { replyJson, replyRaw, startUpstream, type Upstream } from '../../../../upstream.ts'
import { googleStream } from '../../../models/providers/google/playback.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

const MODEL = '/v1beta/models/gemini/gemini-3-flash'
const usage = { promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6 }
const answerOf = (parts: object[], more: object = {}) => ({
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0, ...more }],
  usageMetadata: usage,
})
const say = (text: string) => [{ role: 'user', parts: [{ text }] }]
const hello = { contents: say('Hi') }

let upstream: Upstream
let gateway: Gateway

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.fallback((exchange) => {
    const { path } = exchange.request
    if (path.endsWith(':countTokens')) return replyJson({ totalTokens: 321 })(exchange)
    if (!path.endsWith(':batchEmbedContents')) return replyJson(answerOf([{ text: 'Hello.' }]))(exchange)
    const { requests } = exchange.request.body as { requests: object[] }
    return replyJson({ embeddings: requests.map(() => ({ values: [0.5, -0.25] })) })(exchange)
  })
  gateway = await startGateway({
    providers: [
      {
        name: 'gemini',
        kind: 'google',
        baseUrl: upstream.url.replace(/\/v1$/, ''),
        apiKey: 'upstream-secret',
        headers: {},
        models: undefined,
        prices: {},
      },
    ],
  })
  sharedResources.add(gateway)
})
afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  await upstream.close()
})

const post = (body: object, action = 'generateContent') => gateway.call('POST', `${MODEL}:${action}`, body)
// biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
const sent = () => upstream.requests.at(-1)?.body as any

describe('a provider with the same API', () => {
  test('receives every option unchanged, and nothing is reported', async () => {
    const body = {
      systemInstruction: { parts: [{ text: 'Be brief.' }, { text: 'Be kind.' }] },
      contents: [{ role: 'user', parts: [{ text: 'Hi' }, { text: 'there', videoMetadata: { fps: 1 } }] }],
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
      labels: { team: 'ops' },
      tools: [{ functionDeclarations: [{ name: 'look', behavior: 'BLOCKING' }, { name: 'find' }] }],
      toolConfig: {
        functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look', 'find'] },
        retrievalConfig: { languageCode: 'de' },
      },
      generationConfig: {
        mediaResolution: 'MEDIA_RESOLUTION_LOW',
        topK: 7,
        thinkingConfig: { includeThoughts: true, thinkingLevel: 'LOW' },
      },
    }
    const answer = await post(body)
    expect(answer.status).toBe(200)
    expect(sent()).toEqual(body)
    expect(answer.body.gateway).not.toHaveProperty('changed')
    expect(answer.body.gateway).not.toHaveProperty('dropped')
  })

  test('receives no member whose name has a dot, because it could pass as a member of another object', async () => {
    const answer = await post({
      ...hello,
      'generationConfig.maxOutputTokens': 65_536,
      'toolConfig.functionCallingConfig': { mode: 'NONE' },
      generationConfig: { maxOutputTokens: 10, 'maxOutputTokens.x': 65_536 },
      toolConfig: { 'functionCallingConfig.x': { mode: 'NONE' } },
    })
    expect([answer.status, sent()]).toEqual([200, { ...hello, generationConfig: { maxOutputTokens: 10 } }])
    expect(answer.body.gateway.dropped.map(({ field }: { field: string }) => field).sort()).toEqual([
      'generationConfig.maxOutputTokens',
      'generationConfig.maxOutputTokens.x',
      'toolConfig.functionCallingConfig',
      'toolConfig.functionCallingConfig.x',
    ])
  })

  test('receives function responses as objects, files and addresses as they were sent', async () => {
    const contents = [
      {
        role: 'user',
        parts: [
          { inlineData: { mimeType: 'application/pdf', data: 'aGk=' } },
          { fileData: { mimeType: 'image/png', fileUri: 'https://example.com/a.png' } },
          { fileData: { fileUri: 'https://www.youtube.com/watch?v=1' } },
        ],
      },
      {
        role: 'model',
        parts: [{ functionCall: { id: 'fc_1', name: 'look', args: { at: 1 } }, thoughtSignature: 'c2ln' }],
      },
      { role: 'user', parts: [{ functionResponse: { id: 'fc_1', name: 'look', response: { deep: [{ er: 1 }] } } }] },
      {
        role: 'model',
        parts: [
          { executableCode: { language: 'PYTHON', code: 'print(1)' } },
          { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
          { text: 'One.', thoughtSignature: 'dGV4dA==' },
        ],
      },
      { role: 'user', parts: [{ text: 'Well?' }] },
    ]
    expect((await post({ contents })).status).toBe(200)
    expect(sent().contents).toEqual(contents)
  })

  test('gets the data of its thoughts back, which other providers do without', async () => {
    const inlineData = { mimeType: 'image/png', data: 'aGk=' }
    const contents = [
      ...hello.contents,
      {
        role: 'model',
        parts: [{ inlineData, thought: true, thoughtSignature: 'c2ln' }, { text: 'A lift.' }],
      },
      ...say('Well?'),
    ]
    expect((await post({ contents })).status).toBe(200)
    expect(sent().contents).toEqual(contents)
    const other = await gateway.call('POST', '/v1beta/models/test/any:generateContent', { contents })
    expect([other.status, other.body.gateway.dropped]).toEqual([
      200,
      [{ field: 'contents.parts.inlineData', why: 'provider' }],
    ])
    expect(gateway.upstream.requests.at(-1)?.body).toMatchObject({
      messages: [{}, { role: 'assistant', content: 'A lift.' }, {}],
    })
  })

  test('gets the masked text of a file beside the object of its function response', async () => {
    const data = Buffer.from('Write to ada.lovelace@analytical.org').toString('base64')
    const functionResponse = {
      ...{ id: 'fc_1', name: 'read', response: { pages: 1 } },
      parts: [{ inlineData: { mimeType: 'text/plain', data } }],
    }
    const contents = [
      ...hello.contents,
      { role: 'model', parts: [{ functionCall: { id: 'fc_1', name: 'read', args: {} } }] },
      { role: 'user', parts: [{ functionResponse }] },
    ]
    const masking = await addGuardedTenant(gateway, { policy: { pii: { enabled: true, action: 'mask' } } })
    const { status } = await masking.post(`${MODEL}:generateContent`, { contents })
    expect(status).toBe(200)
    expect(sent().contents.at(-1).parts).toEqual([
      { functionResponse: { id: 'fc_1', name: 'read', response: { pages: 1 } } },
      { text: expect.stringMatching(/^Write to \*/) },
    ])
  })

  test('gets its signatures back: of thoughts, calls and texts, complete and streamed', async () => {
    const parts = [
      { text: 'Hm.', thought: true, thoughtSignature: 'dGhvdWdodA==' },
      { functionCall: { name: 'look', args: { at: 1 } }, thoughtSignature: 'Y2FsbA==' },
    ]
    const thinks = { generationConfig: { thinkingConfig: { includeThoughts: true } } }
    upstream.script(
      replyJson(answerOf(parts)),
      replyRaw(googleStream([parts, [{ text: '', thoughtSignature: 'dGV4dA==' }]], { usage })),
    )
    const whole = await post({ ...hello, ...thinks })
    const content = whole.body.candidates[0].content
    expect(content.parts).toMatchObject(parts)
    const streamed = await post({ ...hello, ...thinks }, 'streamGenerateContent')
    // biome-ignore lint/suspicious/noExplicitAny: as above
    const pieces = streamed.body.flatMap((one: any) => one.candidates[0].content?.parts ?? [])
    expect(pieces).toMatchObject([...parts, { text: '', thoughtSignature: 'dGV4dA==' }])

    const response = { functionResponse: { name: 'look', response: { output: 'A lift.' } } }
    await post({ ...thinks, contents: [...hello.contents, content, { role: 'user', parts: [response] }] })
    expect(sent().contents.slice(1)).toEqual([
      { role: 'model', parts },
      { role: 'user', parts: [response] },
    ])
  })

  test('runs its own tools only if the policy allows them, and their steps and sources come back', async () => {
    const steps = [
      { executableCode: { language: 'PYTHON', code: 'print(1)' } },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
      { text: 'One.' },
    ]
    const metadata = {
      groundingMetadata: { groundingChunks: [{ web: { uri: 'https://example.com', title: 'Example' } }] },
    }
    const asked = { ...hello, tools: [{ google_search: {} }, { codeExecution: {} }] }
    const allowing = await addGuardedTenant(gateway, { policy: { serverTools: { allowed: true } } })
    upstream.script(replyJson(answerOf(steps, metadata)))
    const { status, body } = await allowing.post(`${MODEL}:generateContent`, asked)
    expect([status, body.candidates]).toEqual([
      200,
      [{ content: { role: 'model', parts: steps }, finishReason: 'STOP', index: 0, ...metadata }],
    ])
    expect(sent().tools).toEqual([{ googleSearch: {} }, { codeExecution: {} }])

    const before = upstream.requests.length
    const forbidding = await addGuardedTenant(gateway, { policy: { serverTools: { allowed: false } } })
    expect((await forbidding.post(`${MODEL}:generateContent`, asked)).status).toBe(403)
    expect(upstream.requests).toHaveLength(before)
  })

  test('may send its sources after the finish reason', async () => {
    const source = { candidates: [{ content: {}, index: 0, groundingMetadata: { webSearchQueries: ['lift'] } }] }
    upstream.script(replyRaw(`${googleStream([[{ text: 'One.' }]], { usage })}data: ${JSON.stringify(source)}\n\n`))
    const { body } = await post({ ...hello, labels: { a: 'b' } }, 'streamGenerateContent')
    // biome-ignore lint/suspicious/noExplicitAny: as above
    expect(body.map((one: any) => one.candidates[0].groundingMetadata).filter(Boolean)).toHaveLength(1)
    expect(body.at(-1).candidates[0].finishReason).toBe('STOP')
  })

  test('has its sources inspected by the guards', async () => {
    const { post: ask } = await addGuardedTenant(gateway, {
      policy: { pii: { enabled: true, action: 'mask' }, serverTools: { allowed: true } },
    })
    const title = 'ada.lovelace@analytical.org'
    upstream.script(
      replyJson(answerOf([{ text: 'One.' }], { groundingMetadata: { groundingChunks: [{ web: { title } }] } })),
    )
    const { status, text } = await ask(`${MODEL}:generateContent`, { ...hello, tools: [{ googleSearch: {} }] })
    expect(status).toBe(200)
    expect(text).toContain('groundingChunks')
    expect(text).not.toContain(title)
  })

  test('keeps its own reason for a filtered answer', async () => {
    upstream.script(replyJson(answerOf([{ text: 'No' }], { finishReason: 'RECITATION' })))
    expect((await post(hello)).body.candidates[0].finishReason).toBe('RECITATION')
  })
})

describe('countTokens', () => {
  test.each([
    [{ contents: say('Hi') }, undefined],
    [
      { generateContentRequest: { contents: say('Hi'), systemInstruction: { parts: [{ text: 'Be brief.' }] } } },
      'Be brief.',
    ],
  ])('asks the provider: %#', async (body, system) => {
    const { status, body: answer } = await post(body, 'countTokens')
    expect([status, answer]).toEqual([
      200,
      { totalTokens: 321, gateway: expect.objectContaining({ estimated: false }) },
    ])
    expect(upstream.requests.at(-1)?.path).toBe('/v1beta/models/gemini-3-flash:countTokens')
    expect(sent()).toMatchObject({ generateContentRequest: { model: 'models/gemini-3-flash', contents: say('Hi') } })
    expect(sent().generateContentRequest.systemInstruction?.parts[0].text).toBe(system)
  })

  test('estimates if the provider cannot count, and needs exactly one of two members', async () => {
    const { body } = await gateway.call('POST', '/v1beta/models/test/any:countTokens', hello)
    expect(body).toMatchObject({ totalTokens: expect.any(Number), gateway: { estimated: true } })
    for (const wrong of [{}, { ...hello, generateContentRequest: hello }]) {
      expect((await post(wrong, 'countTokens')).status).toBe(400)
    }
  })
})

test('a rate limit of token counts does not keep chats from the key', async () => {
  const apiKeys = ['1', '2'].map((digit) => ({ key: `key-${digit.repeat(20)}`, weight: 1 }))
  const upstream = await startUpstream()
  onTestFinished(() => upstream.close())
  const used = new Set<unknown>()
  let isLimited = true
  upstream.fallback((exchange) => {
    const { path, headers } = exchange.request
    if (!path.endsWith(':countTokens')) {
      used.add(headers['x-goog-api-key'])
      return replyJson(answerOf([{ text: 'Hello.' }]))(exchange)
    }
    const failure = isLimited ? { status: 429, headers: { 'retry-after': '600' } } : {}
    isLimited = false
    return replyJson({ totalTokens: 321 }, failure)(exchange)
  })
  const keyed = await startGateway({
    providers: [
      {
        ...{ name: 'gemini', kind: 'google', baseUrl: upstream.url.replace(/\/v1$/, ''), apiKey: apiKeys[0]?.key },
        ...{ apiKeys, headers: {}, models: undefined, prices: {} },
      },
    ],
  })
  expect((await keyed.call('POST', `${MODEL}:countTokens`, hello)).status).toBe(200)
  for (let chat = 0; chat < 40; chat++) await keyed.call('POST', `${MODEL}:generateContent`, hello)
  expect(used.size).toBe(2)
})

describe('embeddings', () => {
  const content = (text: string) => ({ content: { parts: [{ text }] } })

  test('of one text and of several, with the task for a provider that knows it', async () => {
    const options = { taskType: 'RETRIEVAL_QUERY', outputDimensionality: 2 }
    const one = await post({ ...content('one'), ...options }, 'embedContent')
    expect([one.status, one.body]).toEqual([
      200,
      {
        embedding: { values: [0.5, -0.25] },
        gateway: expect.objectContaining({ served_model: 'gemini/gemini-3-flash' }),
      },
    ])
    expect(sent().requests).toEqual([{ model: 'models/gemini-3-flash', ...content('one'), ...options }])
    const requests = ['one', 'two'].map((text) => ({ model: 'models/x', ...content(text) }))
    const batch = await post({ requests }, 'batchEmbedContents')
    expect(batch.body.embeddings).toEqual([{ values: [0.5, -0.25] }, { values: [0.5, -0.25] }])
  })

  test('tell that another provider does not know the task', async () => {
    const body = { ...content('one'), task_type: 'RETRIEVAL_QUERY' }
    const answer = await gateway.call('POST', '/v1beta/models/test/any:embedContent', body)
    expect(answer.body.gateway.dropped).toEqual([{ field: 'taskType', why: 'provider' }])
  })

  test('of texts with different tasks, and of an empty text, get a 400', async () => {
    for (const requests of [
      [
        { ...content('one'), taskType: 'A' },
        { ...content('two'), taskType: 'B' },
      ],
      [content('')],
    ]) {
      expect((await post({ requests }, 'batchEmbedContents')).status).toBe(400)
    }
  })
})

test('the models are listed in pages and shown by name, and never as a pattern', async () => {
  const { body } = await gateway.call('GET', '/v1beta/models')
  expect(body.models).toContainEqual({
    name: 'models/local/extract',
    version: '',
    displayName: 'local/extract',
    supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
  })
  expect(JSON.stringify(body)).not.toContain('*')
  expect(body).not.toHaveProperty('nextPageToken')
  const names: string[] = []
  for (let token = ''; names.length === 0 || token !== ''; ) {
    const page = await gateway.call('GET', `/v1beta/models?pageSize=1${token && `&pageToken=${token}`}`)
    names.push(...page.body.models.map(({ name }: { name: string }) => name))
    token = page.body.nextPageToken ?? ''
  }
  expect(names).toEqual(body.models.map(({ name }: { name: string }) => name))
  for (const name of ['local/extract', 'local%2Fextract', 'gemini/gemini-3-flash']) {
    const shown = await gateway.call('GET', `/v1beta/models/${name}`)
    expect([shown.status, shown.body.name]).toEqual([200, `models/${decodeURIComponent(name)}`])
  }
})

test('the models include the names of the configuration that the key may use', async () => {
  const named = await startGateway({
    models: [
      { name: 'smart', targets: [{ modelId: 'test/any', weight: 1, priority: 1 }] },
      { name: 'other', targets: [{ modelId: 'test/any', weight: 1, priority: 1 }] },
    ],
  })
  const { key } = await addGuardedTenant(named, { settings: { allowedModels: ['smart'] } })
  const { body } = await named.call('GET', '/v1beta/models', undefined, { key })
  expect(body.models.map(({ name }: { name: string }) => name)).toEqual(['models/smart'])
  const shown = await named.call('GET', '/v1beta/models/smart', undefined, { key })
  expect([shown.status, shown.body]).toEqual([200, body.models[0]])
  expect((await named.call('GET', '/v1beta/models/other', undefined, { key })).status).toBe(404)
})
