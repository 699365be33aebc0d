import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { verifyReceipt } from '../../../../src/shared/evidence/receipt.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'
import { chatStream, replyJson, replySteps, startUpstream, type Upstream } from '../../../upstream.ts'

// Error bodies in the format of the providers; names of accounts and projects are invented.

type Kind = Exclude<ProviderConfig['kind'], 'vertex'>
type Reason = 'auth_failed' | 'model_not_found' | 'quota_exhausted' | 'rate_limit' | 'server_error'
type Case = [provider: string, status: number, body: unknown, reason: Reason, headers?: Record<string, string>]

/** Each uses the interface of its kind. */
const KINDS: Record<string, Kind> = {
  ...{ openai: 'openai', azure: 'azure', anthropic: 'anthropic', google: 'google', bedrock: 'bedrock' },
  ...{ mistral: 'openai', groq: 'openai', deepseek: 'openai', openrouter: 'openai', xai: 'openai', cohere: 'cohere' },
  ...{ perplexity: 'openai', moonshot: 'openai', fireworks: 'openai', huggingface: 'openai', zai: 'openai' },
}

const openAi = (message: string, type: string | null, code: string | null = null) => ({
  error: { message, type, param: null, code },
})
const anthropic = (type: string, message: string) => ({ type: 'error', error: { type, message }, request_id: 'req_01' })
const google = (code: number, status: string, message: string, details: object[] = []) => ({
  error: { code, message, status, details },
})
const aws = (type: string) => ({ 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/` })
const quota = (...quotaIds: string[]) => ({
  '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
  violations: quotaIds.map((quotaId) => ({ quotaMetric: 'generativelanguage.googleapis.com/x', quotaId })),
})
const retryIn = (retryDelay: string) => ({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay })
const QUOTA = 'You exceeded your current quota, please check your plan and billing details.'
const CREDITS =
  'Your team 16f2 has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit.'

const CASES: Case[] = [
  ['openai', 401, openAi('Incorrect API key provided.', 'invalid_request_error', 'invalid_api_key'), 'auth_failed'],
  ['openai', 403, openAi('Country not supported', 'request_forbidden', 'unsupported_country'), 'auth_failed'],
  [
    'openai',
    404,
    openAi('The model `x` does not exist', 'invalid_request_error', 'model_not_found'),
    'model_not_found',
  ],
  [
    'openai',
    403,
    openAi('Project `p` does not have access to model `x`', 'invalid_request_error', 'model_not_found'),
    'model_not_found',
  ],
  ['openai', 429, openAi(QUOTA, 'insufficient_quota', 'insufficient_quota'), 'quota_exhausted'],
  ['openai', 429, openAi('Rate limit reached for x', 'requests', 'rate_limit_exceeded'), 'rate_limit'],
  ['openai', 503, openAi('The server is overloaded', 'server_error'), 'server_error'],

  [
    'azure',
    401,
    { error: { code: '401', message: 'Access denied due to invalid subscription key or wrong API endpoint.' } },
    'auth_failed',
  ],
  [
    'azure',
    404,
    { error: { code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' } },
    'model_not_found',
  ],
  [
    'azure',
    403,
    {
      error: {
        code: '403',
        message: 'Out of call volume quota for OpenAI F0 pricing tier. Please retry after 3 days.',
      },
    },
    'quota_exhausted',
  ],
  ['azure', 429, { error: { code: '429', message: 'Requests have exceeded the token rate limit.' } }, 'rate_limit'],

  ['anthropic', 401, anthropic('authentication_error', 'invalid x-api-key'), 'auth_failed'],
  ['anthropic', 403, anthropic('permission_error', 'Your API key may not use this resource.'), 'auth_failed'],
  ['anthropic', 400, anthropic('invalid_request_error', 'This organization has been disabled.'), 'auth_failed'],
  ['anthropic', 404, anthropic('not_found_error', 'model: claude-x'), 'model_not_found'],
  ['anthropic', 402, anthropic('billing_error', 'Your account has no payment method.'), 'quota_exhausted'],
  [
    'anthropic',
    400,
    anthropic('invalid_request_error', 'Your credit balance is too low to access the Anthropic API.'),
    'quota_exhausted',
  ],
  [
    'anthropic',
    400,
    anthropic(
      'invalid_request_error',
      'You have reached your specified API usage limits. You will regain access on 2026-04-01 at 00:00 UTC.',
    ),
    'quota_exhausted',
  ],
  ['anthropic', 429, anthropic('rate_limit_error', 'This request would exceed your rate limit.'), 'rate_limit'],
  ['anthropic', 529, anthropic('overloaded_error', 'Overloaded'), 'server_error'],

  [
    'google',
    400,
    google(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', [
      { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' },
    ]),
    'auth_failed',
  ],
  ['google', 403, google(403, 'PERMISSION_DENIED', 'The caller does not have permission'), 'auth_failed'],
  ['google', 404, google(404, 'NOT_FOUND', 'models/x is not found for API version v1beta'), 'model_not_found'],
  [
    'google',
    429,
    google(429, 'RESOURCE_EXHAUSTED', QUOTA, [
      quota('GenerateRequestsPerDayPerProjectPerModel-FreeTier', 'GenerateRequestsPerMinutePerProjectPerModel'),
      retryIn('39s'),
    ]),
    'quota_exhausted',
  ],
  [
    'google',
    429,
    google(429, 'RESOURCE_EXHAUSTED', QUOTA, [quota('GenerateRequestsPerMinutePerProjectPerModel'), retryIn('39s')]),
    'rate_limit',
  ],

  ['bedrock', 403, { message: 'You have no access to the model.' }, 'auth_failed', aws('AccessDeniedException')],
  ['bedrock', 403, { message: 'The security token is invalid.' }, 'auth_failed', aws('UnrecognizedClientException')],
  ['bedrock', 404, { message: 'Could not resolve x' }, 'model_not_found', aws('ResourceNotFoundException')],
  [
    'bedrock',
    400,
    { message: 'The provided model identifier is invalid.' },
    'model_not_found',
    aws('ValidationException'),
  ],
  [
    'bedrock',
    400,
    { message: 'Invocation of model ID x with on-demand throughput isn’t supported. Retry with an inference profile.' },
    'model_not_found',
    aws('ValidationException'),
  ],
  [
    'bedrock',
    400,
    { message: 'Your request exceeds the service quota for your account.' },
    'quota_exhausted',
    aws('ServiceQuotaExceededException'),
  ],
  [
    'bedrock',
    429,
    { message: 'Too many tokens per day, please wait before trying again.' },
    'quota_exhausted',
    aws('ThrottlingException'),
  ],
  [
    'bedrock',
    429,
    { message: 'Too many tokens, please wait before trying again.' },
    'rate_limit',
    aws('ThrottlingException'),
  ],

  ['mistral', 401, { detail: 'Unauthorized' }, 'auth_failed'],
  [
    'mistral',
    400,
    { object: 'error', message: 'Invalid model: x', type: 'invalid_model', code: '1500' },
    'model_not_found',
  ],
  ['groq', 401, openAi('Invalid API Key', 'invalid_request_error', 'invalid_api_key'), 'auth_failed'],
  [
    'groq',
    400,
    openAi('The model `x` has been decommissioned.', 'invalid_request_error', 'model_decommissioned'),
    'model_not_found',
  ],
  [
    'groq',
    429,
    openAi('Rate limit reached on tokens per day (TPD). Please try again in 7m12s.', 'tokens', 'rate_limit_exceeded'),
    'rate_limit',
  ],
  ['deepseek', 402, openAi('Insufficient Balance', 'unknown_error', 'invalid_request_error'), 'quota_exhausted'],
  ['deepseek', 400, openAi('Model Not Exist', 'invalid_request_error', 'invalid_request_error'), 'model_not_found'],
  ['openrouter', 402, { error: { code: 402, message: 'Insufficient credits' } }, 'quota_exhausted'],
  ['openrouter', 400, { error: { code: 400, message: 'x/y is not a valid model ID' } }, 'model_not_found'],
  ['openrouter', 403, { error: { code: 403, message: 'Key limit exceeded (total limit).' } }, 'quota_exhausted'],
  [
    'openrouter',
    429,
    { error: { code: 429, message: 'Rate limit exceeded: free-models-per-day. Add 10 credits.' } },
    'quota_exhausted',
  ],
  ['xai', 400, { code: 'Client specified an invalid argument', error: 'Incorrect API key provided' }, 'auth_failed'],
  ['xai', 429, { code: 'Some resource has been exhausted', error: CREDITS }, 'quota_exhausted'],
  ['xai', 403, { code: 'permission-denied', error: CREDITS }, 'quota_exhausted'],
  ['cohere', 401, { message: 'invalid api token' }, 'auth_failed'],
  ['cohere', 404, { message: "model 'x' not found, make sure the correct model ID was used" }, 'model_not_found'],
  [
    'cohere',
    429,
    { message: 'You are using a Trial key, which is limited to 1000 API calls / month.' },
    'quota_exhausted',
  ],
  ['perplexity', 401, { error: { message: QUOTA, type: 'insufficient_quota', code: 401 } }, 'quota_exhausted'],
  [
    'moonshot',
    429,
    openAi('Your account is not active, please check your plan.', 'exceeded_current_quota_error'),
    'quota_exhausted',
  ],
  [
    'fireworks',
    412,
    openAi('Account a is suspended, possibly due to reaching the monthly spending limit', null),
    'quota_exhausted',
  ],
  [
    'huggingface',
    400,
    openAi('The requested model x is not supported.', null, 'model_not_supported'),
    'model_not_found',
  ],
  ['zai', 400, { error: { code: '1211', message: 'Unknown Model, please check the model code.' } }, 'model_not_found'],
  ['zai', 429, { error: { code: '1113', message: 'Insufficient balance or no resource package.' } }, 'quota_exhausted'],
]

const providersAt = (url: string): ProviderConfig[] =>
  Object.entries(KINDS).map(([name, kind]) => {
    const common = { name, baseUrl: url, apiKey: 'sk-upstream-secret', headers: {}, models: undefined }
    return kind === 'bedrock'
      ? { ...common, kind, region: 'eu-central-1', credentials: undefined }
      : { ...common, kind, prices: { '*': { input: 1, output: 2 } } }
  })

describe("why a model failed, from its provider's error", () => {
  let upstream: Upstream

  beforeAll(async () => {
    upstream = await startUpstream()
  })

  afterAll(() => upstream.close())

  const gateway = sharedGateway(() => ({ providers: providersAt(upstream.url) }))
  const at = (place: number, provider: string) => `${provider}/case-${place}`
  const named = CASES.map((row, place) => ({ row, place, title: `${row[0]} ${row[1]} ${JSON.stringify(row[2])}` }))

  test.each(named)('$title', async ({ row: [provider, status, body, reason, headers = {}], place }) => {
    upstream.fallback(replyJson(body, { status, headers }))
    const model = at(place, provider)

    const classic = await gateway.current.chat({ prompt: 'hi', models: [model, 'test/any'] })
    expect(classic.status).toBe(200)
    expect(classic.body.metadata.failover).toEqual({
      occurred: true,
      attempts: [
        { model, status: 'failed', reason, latency_ms: expect.any(Number) },
        { model: 'test/any', status: 'served', latency_ms: expect.any(Number) },
      ],
    })

    const messages = [{ role: 'user', content: 'hi' }]
    const isLimit = reason === 'rate_limit'
    for (const stream of [false, true]) {
      const v1 = await gateway.current.call('POST', '/v1/chat/completions', { model, messages, stream })
      expect(v1).toMatchObject({
        status: isLimit ? 429 : 502,
        body: {
          error: { message: `All 1 model attempt(s) failed (last: ${model} — ${reason})`, code: 'all_models_failed' },
          attempts: [{ model, status: 'failed', reason, latency_ms: expect.any(Number) }],
        },
      })
    }
  })

  test('an exhausted quota is not a rate limit: the response is 502 without the wait that the provider invents', async () => {
    const exhausted = google(429, 'RESOURCE_EXHAUSTED', QUOTA, [
      quota('GenerateRequestsPerDayPerProject'),
      retryIn('39s'),
    ])
    upstream.fallback(replyJson(exhausted, { status: 429 }))
    const { status, headers } = await gateway.current.chat({ prompt: 'hi', model: 'google/x' })
    expect([status, headers['retry-after']]).toEqual([502, undefined])
  })
})

const refused = (status: number, error: object = {}) =>
  replyJson({ error }, { status, headers: { 'x-request-id': 'req-of-the-provider' } })
const noQuota = refused(429, { code: 'insufficient_quota' })

describe('`on`', () => {
  test.each([
    ['auth_failed', refused(401)],
    ['model_not_found', refused(404)],
    ['quota_exhausted', noQuota],
  ])('treats %s as a server_error and nothing else', async (reason, script) => {
    const gateway = await startGateway()
    const ask = (on?: string[]) =>
      gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b'], ...(on && { redundancy: { on } }) })
    for (const on of [undefined, ['server_error']]) {
      gateway.upstream.script(script)
      expect((await ask(on)).body.metadata.served_model).toBe('test/b')
    }
    for (const on of [['timeout'], ['rate_limit', 'connection_error']]) {
      gateway.upstream.script(script)
      const { status, body } = await ask(on)
      expect([status, body.attempts]).toMatchObject([502, [{ model: 'test/a', reason }]])
    }
  })
})

/** Log lines of attempts, without values that differ between runs. */
const attemptLines = (gateway: Gateway, requestId: unknown) =>
  gateway.log.filter(({ facts, message }) => message.startsWith('model attempt') && facts.request_id === requestId)

describe('the log line of an attempt', () => {
  test('contains request, model, provider, its status and its request id', async () => {
    const gateway = await startGateway()
    const served = replyJson(
      { choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }] },
      { headers: { 'request-id': 'req-served' } },
    )
    gateway.upstream.script(refused(503), refused(401), served)
    const { headers } = await gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b', 'test/c'] })
    const same = { request_id: headers['x-request-id'], provider: 'test', latency_ms: expect.any(Number) }
    const theirs = { provider_request_id: 'req-of-the-provider' }
    expect(attemptLines(gateway, headers['x-request-id'])).toMatchObject([
      { level: 'warn', facts: { ...same, ...theirs, model: 'test/a', reason: 'server_error', provider_status: 503 } },
      { level: 'error', facts: { ...same, ...theirs, model: 'test/b', reason: 'auth_failed', provider_status: 401 } },
      { level: 'debug', facts: { ...same, model: 'test/c', provider_status: 200, provider_request_id: 'req-served' } },
    ])
  })

  test('contains the status of an answer that broke, and none without an answer', async () => {
    const gateway = await startGateway()
    const begun = chatStream(['half'], { finishReason: null, done: false })
    gateway.upstream.script(({ reset }) => reset(), replySteps([begun]))
    const redundancy = { commit: 'complete' }
    const { headers } = await gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b'], stream: true, redundancy })
    const lines = attemptLines(gateway, headers['x-request-id'])
    expect(lines).toMatchObject([
      { facts: { model: 'test/a', reason: 'connection_error' } },
      { facts: { model: 'test/b', reason: 'connection_error', provider_status: 200 } },
    ])
    expect(lines[0]?.facts.provider_status).toBeUndefined()
  })

  test('is written again for an answer that breaks after its first words', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(replySteps([chatStream(['half'], { finishReason: null, done: false })]))
    const { headers } = await gateway.stream({ prompt: 'hi', model: 'test/a' })
    expect(gateway.log).toContainEqual({
      level: 'warn',
      facts: expect.objectContaining({
        request_id: headers['x-request-id'],
        provider: 'test',
        reason: 'connection_error',
        provider_status: 200,
      }),
      message: 'answer broke off',
    })
  })

  test('omits an id that looks unusual', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(replyJson({}, { status: 500, headers: { 'x-request-id': 'a text {"with": "anything"}' } }))
    const { headers } = await gateway.chat({ prompt: 'hi', model: 'test/a' })
    const [line] = attemptLines(gateway, headers['x-request-id'])
    expect(line?.facts).toMatchObject({ provider_status: 500, provider_request_id: undefined })
  })

  test('gives the cause of the open circuit of a skipped model', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock })
    gateway.upstream.fallback((exchange) => {
      const { model } = exchange.request.body as { model: string }
      return model === 'a' ? refused(401)(exchange) : replyJson({}, { status: 503 })(exchange)
    })
    const ask = () => gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b'] })
    for (let request = 0; request < 5; request++) await ask()
    const { headers } = await ask()
    expect(attemptLines(gateway, headers['x-request-id'])).toMatchObject([
      { level: 'warn', facts: { model: 'test/a', reason: 'circuit_open', circuit_reason: 'auth_failed' } },
      { level: 'warn', facts: { model: 'test/b', reason: 'server_error' } },
    ])
  })
})

test.each(['test/any', 'local/extract'])(
  'the log of a request that %s served lists all attempts, and its receipt verifies',
  async (last) => {
    const gateway = await startGateway({ evidence: { receipts: true } })
    gateway.upstream.script(refused(404), ({ reset }) => reset())
    const { body, headers } = await gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b', last] })
    const found = await gateway.call('GET', `/api/external/activity-logs?requestId=${headers['x-request-id']}`)
    const entry = found.body.data.logs.find(({ id }: { id: string }) => id === body.metadata.smltp.bundle_id)
    expect(entry.metadata.attempts).toEqual([
      {
        model: 'test/a',
        status: 'failed',
        reason: 'model_not_found',
        providerStatus: 404,
        providerRequestId: 'req-of-the-provider',
        latencyMs: expect.any(Number),
      },
      { model: 'test/b', status: 'failed', reason: 'connection_error', latencyMs: expect.any(Number) },
      { model: last, status: 'served', latencyMs: expect.any(Number) },
    ])
    const { body: held } = await gateway.call('GET', `/api/external/receipts/${body.metadata.smltp.bundle_id}`)
    const keys = await gateway.call('GET', '/.well-known/aigw-keys.json', undefined, { key: null })
    expect(verifyReceipt(held.receipt, parseKeySet(keys.body))).toEqual({ ok: true })
    // The attempts in the response contain only the members of the contract.
    expect(body.metadata.failover?.attempts.map((attempt: object) => Object.keys(attempt).sort())).toEqual([
      ['latency_ms', 'model', 'reason', 'status'],
      ['latency_ms', 'model', 'reason', 'status'],
      ['latency_ms', 'model', 'status'],
    ])
  },
)
