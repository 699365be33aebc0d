import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import type { KeySettings } from '../../../../src/shared/wire/keys.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, type GatewayOptions, sharedGateway, startGateway, upstreamProvider } from '../../../harness.ts'
import { sharedResources } from '../../../shared-resources.ts'
import { chatJson, type Exchange, replyJson, startUpstream, type Upstream } from '../../../upstream.ts'

const OPENAI_PATH = '/v1/chat/completions'
const usage = { prompt_tokens: 11, completion_tokens: 5 }
const target = (modelId: string, weight = 1, priority = 1) => ({ modelId, weight, priority })

type Failure = { status: number; headers?: Record<string, string> }

/** Upstreams by the name of their provider. Each answers with its name, until a test sets its failure. */
const upstreams: Record<string, Upstream> = {}
const failures: Record<string, (exchange: Exchange) => Failure | undefined> = {}
const PROVIDERS = ['west', 'east', 'spare'] as const

beforeAll(async () => {
  sharedResources.add(upstreams)
  for (const name of PROVIDERS) {
    const upstream = await startUpstream()
    upstream.fallback((exchange) => {
      const failure = failures[name]?.(exchange)
      const answer = failure ? { error: { message: 'no' } } : chatJson(`I am ${name}.`, { usage })
      return replyJson(answer, failure)(exchange)
    })
    upstreams[name] = upstream
  }
})
afterAll(async () => {
  sharedResources.delete(upstreams)
  await Promise.all(Object.values(upstreams).map((upstream) => upstream.close()))
})

/** Lets a provider fail for the duration of `run`. */
async function whileFailing<T>(provider: string, status: number, run: () => Promise<T>): Promise<T> {
  failures[provider] = () => ({ status })
  try {
    return await run()
  } finally {
    delete failures[provider]
  }
}

const providers = (): ProviderConfig[] => [
  { ...upstreamProvider('west', upstreams.west?.url ?? '', ['m', 'other']), region: 'us' },
  { ...upstreamProvider('east', upstreams.east?.url ?? '', ['m']), region: 'eu' },
  { ...upstreamProvider('spare', upstreams.spare?.url ?? '', ['backup']), region: 'eu' },
]

const MODELS = [
  { name: 'smart', targets: [target('west/m', 70), target('east/m', 30)] },
  { name: 'safe', targets: [target('west/m'), target('spare/backup', 1, 2)] },
]

const options = (more: GatewayOptions = {}) => ({ providers: providers(), models: MODELS, ...more })

const say = (gateway: Gateway, body: object, key?: string) =>
  gateway.call(
    'POST',
    OPENAI_PATH,
    { messages: [{ role: 'user', content: 'hi' }], ...body },
    key === undefined ? {} : { key },
  )

const servedOf = ({ body }: { body: { gateway: { served_model: string } } }) => body.gateway.served_model

describe('a name with weights', () => {
  const shared = sharedGateway(() => options())

  async function westShare(count: number, bodyOf: (request: number) => object): Promise<number> {
    let west = 0
    for (let request = 0; request < count; request += 20) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, at) => say(shared.current, { model: 'smart', ...bodyOf(request + at) })),
      )
      for (const answer of answers) {
        expect(answer.status).toBe(200)
        if (servedOf(answer) === 'west/m') west++
      }
    }
    return (100 * west) / count
  }

  test('distributes requests by the weights of its targets', async () => {
    const share = await westShare(400, () => ({}))
    expect(share).toBeGreaterThan(55)
    expect(share).toBeLessThan(85)
  })

  test('distributes conversations by the weights of its targets', async () => {
    const share = await westShare(400, (request) => ({ prompt_cache_key: `session-${request}` }))
    expect(Math.abs(share - 70)).toBeLessThan(8)
  })

  /** The number of targets that answer ten requests with this body. */
  async function targetsOf(path: string, body: object): Promise<number> {
    const served = new Set<string>()
    for (let request = 0; request < 10; request++) {
      const answer = await shared.current.call('POST', path, body)
      expect(answer.status).toBe(200)
      served.add(answer.body.gateway?.served_model ?? answer.body.metadata.served_model)
    }
    return served.size
  }
  const messages = [{ role: 'user', content: 'hi' }]
  const turns = [...messages, { role: 'assistant', content: 'Hello.' }, { role: 'user', content: 'Go on.' }]

  test.each<[string, string, object]>([
    ['prompt_cache_key', OPENAI_PATH, { messages, prompt_cache_key: 'c-1' }],
    ['user', OPENAI_PATH, { messages, user: 'u-1' }],
    ['prompt_cache_key of Responses', '/v1/responses', { input: 'hi', prompt_cache_key: 'c-2' }],
    ['the user of Anthropic', '/v1/messages', { messages, max_tokens: 9, metadata: { user_id: 'u-2' } }],
    ['the id of a conversation', '/api/external/chat/completions', { prompt: 'hi', conversation_id: 'c-3' }],
    ['the first message, from the second turn on', OPENAI_PATH, { messages: turns }],
  ])('a conversation stays with its target: %s', async (_, path, body) => {
    expect(await targetsOf(path, { model: 'smart', index: 'Zero-Knowledge', ...body })).toBe(1)
  })
})

describe('several keys of one provider', () => {
  const KEYS = [`sk-${'1'.repeat(20)}`, `sk-${'2'.repeat(20)}`].map((key) => ({ key, weight: 1 }))
  const keyed = (): ProviderConfig => ({
    ...upstreamProvider('keyed', upstreams.west?.url ?? ''),
    apiKey: KEYS[0]?.key,
    apiKeys: KEYS,
  })
  const bearer = ({ request }: Exchange) => request.headers.authorization

  test('a key that answers 429 costs no client an error, and gets no call until its Retry-After has passed', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ providers: [keyed()], clock })
    const rejected: unknown[] = []
    failures.west = (exchange) => {
      if (bearer(exchange) !== `Bearer ${KEYS[0]?.key}`) return undefined
      rejected.push(exchange)
      return { status: 429, headers: { 'retry-after': '60' } }
    }
    try {
      const ask = async (count: number) => {
        for (let request = 0; request < count; request += 10) {
          const answers = await Promise.all(Array.from({ length: 10 }, () => say(gateway, { model: 'keyed/any' })))
          expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
        }
      }
      await ask(100)
      // Only requests that were in flight before the first 429 arrived may call the key.
      expect(rejected.length).toBeGreaterThan(0)
      expect(rejected.length).toBeLessThanOrEqual(10)
      const before = rejected.length
      clock.advance(59_000)
      await ask(20)
      expect(rejected.length).toBe(before)
      clock.advance(1_000)
      await ask(40)
      expect(rejected.length).toBeGreaterThan(before)
    } finally {
      delete failures.west
    }
  })

  test('both keys have the same model id, so the answer reports no failover', async () => {
    const gateway = await startGateway({ providers: [keyed()] })
    failures.west = (exchange) => (bearer(exchange) === `Bearer ${KEYS[0]?.key}` ? { status: 401 } : undefined)
    try {
      for (let request = 0; request < 5; request++) {
        const { status, body } = await say(gateway, { model: 'keyed/any', redundancy: { on: [] } })
        expect(status).toBe(200)
        expect(body.gateway).toMatchObject({ served_model: 'keyed/any', requested_model: 'keyed/any' })
        expect(body.gateway.failover).toBeUndefined()
      }
      const events = await gateway.app.db.selectFrom('outbox_events').select('type').execute()
      expect(events.map(({ type }) => type)).not.toContain('api:model_failover')
    } finally {
      delete failures.west
    }
  })
})

describe('a request that a model rejects', () => {
  const KEYS = ['1', '2', '3'].map((digit) => ({ key: `sk-${digit.repeat(20)}`, weight: 1 }))
  const keyed = (): ProviderConfig => ({
    ...upstreamProvider('keyed', upstreams.west?.url ?? ''),
    apiKey: KEYS[0]?.key,
    apiKeys: KEYS,
  })
  const answers = {
    limited: replyJson({ error: { message: 'no' } }, { status: 429 }),
    unfit: replyJson({ error: { message: 'no' } }, { status: 400 }),
    tooLong: replyJson({ error: { code: 'context_length_exceeded', message: 'no' } }, { status: 400 }),
  }

  test.each<[(keyof typeof answers)[], string]>([
    [['unfit'], 'bad_request'],
    [['limited', 'unfit'], 'bad_request'],
    [['tooLong'], 'context_length'],
    [['limited', 'tooLong'], 'context_length'],
  ])('is not sent with its other keys: %j', async (script, reason) => {
    const gateway = await startGateway({ providers: [keyed()] })
    const sentBefore = upstreams.west?.requests.length ?? 0
    upstreams.west?.script(...script.map((name) => answers[name]))
    const { status, body } = await gateway.chat({ prompt: 'hi', model: 'keyed/any' })
    expect([status, body.reason]).toEqual([400, reason])
    expect((upstreams.west?.requests.length ?? 0) - sentBefore).toBe(script.length)
  })

  test('is sent once to each model of a chain if it is too long, and is then a 400', async () => {
    const gateway = await startGateway({ providers: [keyed(), ...providers()] })
    const sentBefore = upstreams.west?.requests.length ?? 0
    upstreams.west?.script(answers.tooLong)
    upstreams.spare?.script(answers.tooLong)
    const { status, body } = await gateway.chat({ prompt: 'hi', models: ['keyed/any', 'spare/backup'] })
    expect([status, body.reason]).toEqual([400, 'context_length'])
    expect((upstreams.west?.requests.length ?? 0) - sentBefore).toBe(1)
  })

  test('goes to a preferred target that is cooling down, because no other target answers', async () => {
    const gateway = await startGateway(options())
    failures.west = () => ({ status: 429, headers: { 'retry-after': '3600' } })
    try {
      expect(servedOf(await say(gateway, { model: 'safe' }))).toBe('spare/backup')
    } finally {
      delete failures.west
    }
    await whileFailing('spare', 400, async () => {
      const answer = await say(gateway, { model: 'safe' })
      expect([answer.status, servedOf(answer)]).toEqual([200, 'west/m'])
    })
  })
})

describe('targets that fail', () => {
  const shared = sharedGateway(() => options())

  test.each([429, 401, 402])('%i spills over to another target, regardless of the triggers', async (status) => {
    const gateway = await startGateway(options())
    await whileFailing('west', status, async () => {
      for (let request = 0; request < 6; request++) {
        const answer = await say(gateway, { model: 'smart', redundancy: { on: [] } })
        expect([answer.status, servedOf(answer)]).toEqual([200, 'east/m'])
      }
    })
  })

  test('a fault of the server fails over like a model of a chain, if the triggers include it', async () => {
    const gateway = await startGateway(options())
    await whileFailing('west', 500, async () => {
      const sticky = { model: 'smart', prompt_cache_key: await westConversation(gateway) }
      const answer = await say(gateway, sticky)
      expect([answer.status, servedOf(answer)]).toEqual([200, 'east/m'])
      expect(answer.body.gateway).toMatchObject({
        requested_model: 'smart',
        failover: { occurred: true, attempts: [{ model: 'west/m', reason: 'server_error' }, { model: 'east/m' }] },
      })
      expect((await say(gateway, { ...sticky, redundancy: { on: [] } })).status).toBe(502)
    })
  })

  /** A cache key whose conversation prefers west. */
  async function westConversation(gateway: Gateway): Promise<string> {
    const works = failures.west
    delete failures.west
    try {
      for (let at = 0; ; at++) {
        const key = `conversation-${at}`
        if (servedOf(await say(gateway, { model: 'smart', prompt_cache_key: key })) === 'west/m') return key
      }
    } finally {
      if (works) failures.west = works
    }
  }

  test('targets with a lower priority answer only if the others fail', async () => {
    for (let request = 0; request < 5; request++)
      expect(servedOf(await say(shared.current, { model: 'safe' }))).toBe('west/m')
    await whileFailing('west', 503, async () => {
      expect(servedOf(await say(shared.current, { model: 'safe' }))).toBe('spare/backup')
    })
  })

  test('if every target is rate limited, the answer is 429, and later requests make one call', async () => {
    const gateway = await startGateway(options())
    const limited = () => ({ status: 429, headers: { 'retry-after': '60' } })
    Object.assign(failures, { west: limited, east: limited })
    try {
      const first = await say(gateway, { model: 'smart' })
      expect([first.status, first.body.attempts?.length]).toEqual([429, 2])
      expect(first.headers['retry-after']).toBe('60')
      const second = await say(gateway, { model: 'smart' })
      expect([second.status, second.body.attempts?.length]).toEqual([429, 1])
    } finally {
      delete failures.west
      delete failures.east
    }
  })

  test('a chain may contain names', async () => {
    const gateway = await startGateway(options())
    await whileFailing('west', 500, () =>
      whileFailing('east', 500, async () => {
        const answer = await say(gateway, { models: ['smart', 'spare/backup'] })
        expect([answer.status, servedOf(answer)]).toEqual([200, 'spare/backup'])
        expect(answer.body.gateway.requested_model).toBe('smart')
        expect(answer.body.gateway.failover.attempts).toHaveLength(3)
      }),
    )
  })
})

describeEachEngine('rights, policies and records of a name', (engine) => {
  const shared = sharedGateway(() => options({ engine }))
  let tenantId = ''
  beforeAll(async () => {
    const { db } = shared.current.app
    tenantId = (await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()).id
  })
  const keyWith = async (settings: Partial<KeySettings>) => {
    const { db } = shared.current.app
    return (await addKey(db, await addUser(db, { tenant_id: tenantId }), { settings })).secret
  }
  async function createPolicy(name: string, policy: object): Promise<void> {
    const body = { name, description: '', policy: { version: 1, ...policy } }
    expect((await shared.current.call('POST', '/api/external/smltp-policies', body)).status).toBe(201)
  }

  test('a key reaches through a name only models that it may use', async () => {
    const east = await keyWith({ allowedModels: ['east/*'] })
    for (let request = 0; request < 10; request++)
      expect(servedOf(await say(shared.current, { model: 'smart' }, east))).toBe('east/m')
    const none = await keyWith({ allowedModels: ['spare/backup'] })
    const refused = await say(shared.current, { model: 'smart' }, none)
    expect(refused.status).toBe(403)
    expect(refused.text).toContain('This key may not use the model')
    expect(refused.text).not.toContain('west/m')
    const chain = await say(shared.current, { models: ['spare/backup', 'smart'] }, none)
    expect(chain.status).toBe(403)
  })

  test('a key may be limited to a name; it then reaches its models only by that name', async () => {
    const key = await keyWith({ allowedModels: ['smart'] })
    expect((await say(shared.current, { model: 'smart' }, key)).status).toBe(200)
    for (const model of ['west/m', 'safe', 'other', 'spare/backup'])
      expect((await say(shared.current, { model }, key)).status).toBe(403)
  })

  test('a policy leaves out the targets that it forbids, by its lists and by region', async () => {
    await createPolicy('only-east', { allowedModels: ['east/m'] })
    await createPolicy('no-west', { deniedModels: ['west/*'] })
    await createPolicy('in-europe', { residency: { allowedRegions: ['eu'] } })
    const key = await keyWith({ allowedSMLTPPolicies: [] })
    for (const smltp_policy of ['only-east', 'no-west', 'in-europe']) {
      for (let request = 0; request < 6; request++)
        expect(servedOf(await say(shared.current, { model: 'smart', smltp_policy }, key))).toBe('east/m')
    }
  })

  test('if the policy forbids every target, the request is rejected and leaves an incident', async () => {
    await createPolicy('only-backup', { allowedModels: ['spare/backup'] })
    const key = await keyWith({ allowedSMLTPPolicies: [] })
    const { status, text, body } = await say(shared.current, { model: 'smart', smltp_policy: 'only-backup' }, key)
    expect(status).toBe(403)
    expect(text).toContain('does not allow the model')
    const receipt = (await shared.current.call('GET', `/api/external/receipts/${body.bundle_id}`)).body
    expect(receipt.receipt ?? receipt).toMatchObject({ requested_model: 'smart', outcome: 'denied' })
  })

  test('the receipt, the log and the bill have the requested name and the model that answered', async () => {
    const key = await keyWith({ allowedModels: ['east/m'] })
    const answer = await say(shared.current, { model: 'smart' }, key)
    const { smltp_bundle_id: id } = answer.body.gateway
    const receipt = (await shared.current.call('GET', `/api/external/receipts/${id}`)).body
    expect(receipt.receipt ?? receipt).toMatchObject({
      requested_model: 'smart',
      model: 'east/m',
      cost: { nanos: 11_000 + 10_000 },
    })
    const served = shared.current.log.filter(({ message }) => message === 'model attempt served').at(-1)
    expect(served?.facts).toMatchObject({ requested_model: 'smart', model: 'east/m' })
  })
})

describe('names of models without their provider', () => {
  const shared = sharedGateway(() => options({ defaultModel: 'safe' }))

  test.each([OPENAI_PATH, `/api/external${OPENAI_PATH}`])('%s accepts them if exactly one model fits', async (path) => {
    const messages = [{ role: 'user', content: 'hi' }]
    const answer = await shared.current.call('POST', path, { model: 'other', messages })
    expect(answer.body.gateway).toMatchObject({ requested_model: 'other', served_model: 'west/other' })
  })

  test('several that fit are an error that lists them', async () => {
    const { status, body } = await say(shared.current, { model: 'm' })
    expect([status, body.error.message]).toEqual([
      400,
      'Several providers have the model "m". Name one of: west/m, east/m.',
    ])
  })

  test('models that the key may not use do not count', async () => {
    const { db } = shared.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    const { secret } = await addKey(db, await addUser(db, { tenant_id }), { settings: { allowedModels: ['east/*'] } })
    expect(servedOf(await say(shared.current, { model: 'm' }, secret))).toBe('east/m')
    expect((await say(shared.current, { model: 'other' }, secret)).status).toBe(403)
  })

  test('the own interface accepts names of the configuration only', async () => {
    expect((await shared.current.chat({ prompt: 'hi', model: 'safe' })).body.metadata).toMatchObject({
      requested_model: 'safe',
      served_model: 'west/m',
    })
    const { status, body } = await shared.current.chat({ prompt: 'hi', model: 'other' })
    expect([status, (body as { error?: unknown }).error]).toEqual([400, 'Invalid model'])
    expect((await shared.current.chat({ prompt: 'hi', model: undefined })).status).toBe(400)
  })

  test('requests without a model get the default model', async () => {
    const messages = [{ role: 'user', content: 'hi' }]
    for (const [path, body] of [
      [OPENAI_PATH, { messages }],
      ['/v1/responses', { input: 'hi' }],
      ['/v1/messages', { messages, max_tokens: 9 }],
      ['/v1/messages/count_tokens', { messages }],
    ] as const) {
      const answer = await shared.current.call('POST', path, body)
      expect(answer.status, path).toBe(200)
      expect(answer.body.gateway).toMatchObject({ requested_model: 'safe', served_model: 'west/m' })
    }
    expect((await shared.current.call('POST', '/v1/embeddings', { input: 'hi' })).status).toBe(400)
  })

  test('a dry run lists the targets of a name', async () => {
    const body = { prompt: 'hi', model: 'safe', index: 'Zero-Knowledge' }
    const answer = await shared.current.call('POST', '/api/external/policy-check', body)
    expect(answer.body.plan).toEqual({ models: ['west/m', 'spare/backup'], failover_engine: true })
  })
})

describe('embeddings by a name', () => {
  test('use only targets of one model, because vectors of different models are not comparable', async () => {
    const embedding = replyJson({
      data: [{ index: 0, embedding: [0.5] }],
      usage: { prompt_tokens: 1, total_tokens: 1 },
    })
    const models = [{ name: 'vectors', targets: [target('west/m'), target('spare/backup', 1_000), target('east/m')] }]
    const gateway = await startGateway(options({ models }))
    for (const name of PROVIDERS) upstreams[name]?.script(...Array.from({ length: 12 }, () => embedding))
    const sentBefore = upstreams.spare?.requests.length
    for (let request = 0; request < 12; request++) {
      const { status, body } = await gateway.call('POST', '/v1/embeddings', { model: 'vectors', input: 'hi' })
      expect([status, ['west/m', 'east/m'].includes(body.model)]).toEqual([200, true])
    }
    expect(upstreams.spare?.requests.length).toBe(sentBefore)
  })
})
