import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { Agent, request as send } from 'undici'
import { afterAll, beforeAll, inject } from 'vitest'
import { type App, startApp } from '../src/daemon/app.ts'
import type { Config, ConfigFaults } from '../src/daemon/config/config.ts'
import { DEFAULT_CACHE, DEFAULT_CONCURRENCY, DEFAULT_LIMITS } from '../src/daemon/gateway/config.ts'
import { licensePools } from '../src/daemon/metering/config.ts'
import type { EndpointConfig, ProviderConfig } from '../src/daemon/models/config.ts'
import type { StoreTimeouts } from '../src/daemon/platform/db/database.ts'
import type { ConnectionLimits } from '../src/daemon/platform/http/server.ts'
import { createLog, type DaemonLog, type Log } from '../src/daemon/platform/log.ts'
import { DEFAULT_EVIDENCE } from '../src/daemon/records/config.ts'
import { newApiKey } from '../src/shared/ids.ts'
import { type Clock, systemClock } from '../src/shared/time.ts'
import type { ChatFrame, ChatResponse } from '../src/shared/wire/chat.ts'
import { type Bill, billsOf } from './bills.ts'
import { clockCron, noCron } from './clock-cron.ts'
import { sqliteEngine, type TestEngine, type TestPlace } from './engines.ts'
import { closeAfterTest, wasClosed } from './leftovers.ts'
import { secretWatch } from './secret-watch.ts'
import { sharedResources } from './shared-resources.ts'
import { chatJson, replyJson, type Script, startUpstream, type Upstream } from './upstream.ts'
import { TEST_MASTER_KEY } from './webhook-rows.ts'

export type Answer = {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  /** The parsed JSON body. Undefined if it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape, including invalid ones
  body: any
}

/** A complete streamed answer: the frames in order, and whether `[DONE]` ended it. */
export type Streamed = { status: number; headers: Answer['headers']; frames: ChatFrame[]; done: boolean; text: string }

export type CallOptions = {
  key?: string | null
  headers?: Record<string, string>
  signal?: AbortSignal
}

export type LogLine = { level: 'debug' | 'info' | 'warn' | 'error'; facts: Record<string, unknown>; message: string }

export type Gateway = {
  app: App
  url: string
  adminKey: string
  upstream: Upstream
  config: Config
  log: LogLine[]
  call(method: string, path: string, body?: unknown, options?: CallOptions): Promise<Answer>
  /** POST /chat/completions with a default `index` and `model`. `upstream` answers. */
  chat(body: Record<string, unknown>, options?: CallOptions): Promise<Answer & { body: ChatResponse }>
  stream(body: Record<string, unknown>, options?: CallOptions): Promise<Streamed>
  /** Starts a stream and resolves with its body when the head arrives. The test reads the body. */
  openStream(body: Record<string, unknown>, options?: CallOptions): Promise<AsyncIterator<Buffer>>
  /** Replaces what the daemon reads when it reloads its configuration. */
  onReload(load: () => Config | ConfigFaults): void
  /** All usage rows, in insertion order. */
  usage(): Promise<Bill[]>
  /** Closes the daemon and restarts it on the same store. */
  restart(): Promise<void>
  close(): Promise<void>
}

export type GatewayOptions = {
  engine?: TestEngine
  clock?: Clock
  providers?: readonly ProviderConfig[]
  proxies?: Config['proxies']
  limits?: Partial<ConnectionLimits>
  storeTimeouts?: StoreTimeouts
  drainTimeoutMs?: number
  licenses?: Partial<Config['licenses']>
  points?: Config['points']
  trustedProxies?: readonly string[]
  scripts?: Config['scripts']
  models?: Config['models']
  defaultModel?: Config['defaultModel']
  /** By default without retries, so that each failure of a script is one call. */
  failover?: Config['failover']
  /** Limits that are not given have their default values. */
  concurrency?: Partial<Config['concurrency']>
  /** Limits of the compatibility surfaces. `limits` above are those of connections. */
  requestLimits?: Partial<Config['limits']>
  responses?: Config['responses']
  cors?: Config['cors']
  /** The answer cache. By default disabled. Limits that are not given have their default values. */
  cache?: Partial<Config['cache']>
  knowledge?: Config['knowledge']
  /** The prompt shield's own model. `program` replaces the program of its thread. */
  shieldModel?: Config['shieldModel'] & { program?: URL }
  evidence?: Partial<Config['evidence']>
  metrics?: Config['metrics']
  telemetry?: Config['telemetry']
  logRequests?: boolean
  /** By default webhooks may be delivered to loopback addresses, where the tests' receivers listen. */
  webhooks?: Config['webhooks']
  masterKey?: string
  nextMasterKey?: string
  /** Starts another daemon with the store, key and upstream of this gateway. Close it before this gateway. */
  beside?: Gateway
}

/** Built code, because Node 20 cannot run our TypeScript in the extraction process. */
export const extractionProgram = (): URL =>
  pathToFileURL(join(inject('builtProject'), 'dist/daemon/knowledge/ingest/extract/process.js'))

/** Built code, for the same reason. */
export const rankingProgram = (): URL =>
  pathToFileURL(join(inject('builtProject'), 'dist/daemon/knowledge/search/thread/ranking-thread.js'))

/** Built code, for the same reason. */
export const shieldProgram = (): URL =>
  pathToFileURL(join(inject('builtProject'), 'dist/daemon/safety/prompt-shield/model/model-thread.js'))

/** One gateway for all tests of the enclosing `describe`. Pass a function if the options need an earlier gateway. */
export function sharedGateway(options: GatewayOptions | (() => GatewayOptions) = {}): { readonly current: Gateway } {
  let gateway: Gateway | undefined
  beforeAll(async () => {
    gateway = await startGateway(typeof options === 'function' ? options() : options)
    sharedResources.add(gateway)
  })
  afterAll(async () => {
    if (!gateway) return
    // The secret watch also searches the metrics.
    await gateway.call('GET', '/metrics')
    sharedResources.delete(gateway)
    await gateway.close()
  })
  return {
    get current() {
      if (!gateway) throw new Error('the shared gateway is available only while tests run')
      return gateway
    },
  }
}

/**
 * Starts the real daemon in this process on a free port, with its own store and a scripted upstream as provider `test`.
 * It is closed after the test, and the test fails if the daemon leaves a timer.
 */
export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const { engine = sqliteEngine, beside } = options
  const place = beside ? placeOf(beside) : await engine.place({ migrated: true })
  const upstream = beside?.upstream ?? (await startUpstream())
  const chat = replyJson(chatJson('Hello from the upstream.', { usage: { prompt_tokens: 11, completion_tokens: 5 } }))
  if (!beside) {
    upstream.fallback((exchange) => {
      const { path } = exchange.request
      const [, route = ''] = /\/(embeddings|rerank|moderations)$/.exec(path) ?? []
      return (OTHER_ANSWERS[route] ?? chat)(exchange)
    })
  }
  const adminKey = beside?.adminKey ?? newApiKey()
  const clock = countingClock(options.clock ?? systemClock)
  const log: LogLine[] = []
  const written = watchedLog()
  const config = testConfig(place, adminKey, upstream, options)
  watchSecretsOf(config)
  let loadConfig = (): Config | ConfigFaults => config
  const deps = {
    clock,
    loadConfig: () => loadConfig(),
    cron: options.clock ? clockCron(clock) : noCron,
    log: collectingLog(log, written),
    // Test workers use all cores, so a process of the lowest priority would hardly run.
    extraction: { program: extractionProgram(), lowPriority: false },
    rankingProgram: rankingProgram(),
    shieldProgram: options.shieldModel?.program ?? shieldProgram(),
    ...(options.limits && { limits: options.limits }),
    ...(options.storeTimeouts && { storeTimeouts: options.storeTimeouts }),
  }
  let app = await startApp(config, deps)
  const agent = new Agent({ pipelining: 1, keepAliveTimeout: 60_000 })

  async function exchange(method: string, path: string, body: unknown, { key, headers, signal }: CallOptions = {}) {
    const raw = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    if (key) secretWatch.addSecret('an API key', key)
    if (MODEL_ROUTES.test(path)) secretWatch.addWords(typeof raw === 'string' ? parse(raw) : undefined)
    const response = await send(gateway.url + path, {
      method: method as 'GET',
      dispatcher: agent,
      ...(signal && { signal }),
      headers: {
        ...(key !== null && { authorization: `Bearer ${key ?? adminKey}` }),
        ...(raw !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(raw !== undefined && { body: raw }),
    })
    secretWatch.record(`headers of ${nameOf(method, path)}`, JSON.stringify(response.headers))
    return response
  }

  let closed = false
  const withDefaults = (body: Record<string, unknown>) => ({ index: 'Zero-Knowledge', model: 'test/any', ...body })
  const chatPath = '/api/external/chat/completions'

  const gateway: Gateway = {
    get app() {
      return app
    },
    get url() {
      return app.url
    },
    adminKey,
    upstream,
    config,
    log,
    async call(method, path, body, callOptions) {
      const response = await exchange(method, path, body, callOptions)
      const text = await response.body.text()
      watchAnswer(method, path, response.statusCode, text)
      return { status: response.statusCode, headers: response.headers, text, body: parse(text) }
    },
    chat: (body, callOptions) => gateway.call('POST', chatPath, withDefaults(body), callOptions),
    async stream(body, callOptions) {
      const response = await exchange('POST', chatPath, { ...withDefaults(body), stream: true }, callOptions)
      const text = await response.body.text()
      watchAnswer('POST', chatPath, response.statusCode, text)
      return { status: response.statusCode, headers: response.headers, text, ...toFrames(text) }
    },
    async openStream(body, callOptions) {
      const response = await exchange('POST', chatPath, { ...withDefaults(body), stream: true }, callOptions)
      return response.body[Symbol.asyncIterator]()
    },
    onReload(load) {
      loadConfig = load
    },
    usage: () => billsOf(app.db),
    async restart() {
      await app.close()
      app = await startApp(config, deps)
    },
    async close() {
      if (closed) return
      closed = true
      wasClosed(gateway)
      await agent.destroy()
      await app.close()
      await written.flush()
      if (!beside) await upstream.close()
      await place.remove()
      if (clock.outstanding > 0) throw new Error(`the daemon left ${clock.outstanding} timer(s) behind`)
    },
  }
  closeAfterTest(gateway)
  return gateway
}

/** Returns one vector per text. */
const embed: Script = (exchange) => {
  const { input } = exchange.request.body as { input: string | string[] }
  const data = [input].flat().map((_, index) => ({ object: 'embedding', index, embedding: [0.5, -0.25] }))
  return replyJson({ object: 'list', data, usage: { prompt_tokens: 2, total_tokens: 2 } })(exchange)
}

/** Ranks the documents from the last to the first. */
const rank: Script = (exchange) => {
  const { documents, top_n: count } = exchange.request.body as { documents: string[]; top_n: number }
  const results = documents.map((_, index) => ({ index, relevance_score: (index + 1) / documents.length }))
  return replyJson({ results: results.toReversed().slice(0, count) })(exchange)
}

/** Flags no text. */
const moderate: Script = (exchange) => {
  const { input } = exchange.request.body as { input: string[] }
  return replyJson({ results: input.map(() => ({ flagged: false, categories: {}, category_scores: {} })) })(exchange)
}

const OTHER_ANSWERS: Record<string, Script> = { embeddings: embed, rerank: rank, moderations: moderate }

type Place = Pick<TestPlace, 'dataDir' | 'databaseUrl' | 'remove'>

/** The store of another gateway. That gateway removes it. */
const placeOf = ({ config: { dataDir, database } }: Gateway): Place => ({
  dataDir,
  databaseUrl: database.kind === 'postgres' ? database.url : undefined,
  remove: () => Promise.resolve(),
})

function testConfig(place: Place, bootstrapKey: string, upstream: Upstream, options: GatewayOptions): Config {
  return {
    listen: { host: '127.0.0.1', port: 0 },
    dataDir: place.dataDir,
    database: place.databaseUrl === undefined ? { kind: 'sqlite' } : { kind: 'postgres', url: place.databaseUrl },
    bootstrapKey,
    masterKey: options.masterKey ?? TEST_MASTER_KEY,
    nextMasterKey: options.nextMasterKey,
    webhooks: options.webhooks ?? { allowPrivate: true },
    providers: [...(options.providers ?? []), upstreamProvider('test', upstream.url)],
    log: { level: 'silent', requests: options.logRequests ?? false },
    ...(options.metrics && { metrics: options.metrics }),
    ...(options.telemetry && { telemetry: options.telemetry }),
    drainTimeoutMs: options.drainTimeoutMs ?? 1000,
    licenses: licensePools(options.licenses),
    trustedProxies: options.trustedProxies,
    ...(options.proxies && { proxies: options.proxies }),
    ...(options.points && { points: options.points }),
    ...(options.scripts && { scripts: options.scripts }),
    ...(options.models && { models: options.models }),
    ...(options.defaultModel && { defaultModel: options.defaultModel }),
    failover: options.failover ?? { sameModelRetries: 0 },
    ...(options.concurrency && { concurrency: { ...DEFAULT_CONCURRENCY, ...options.concurrency } }),
    ...(options.requestLimits && { limits: { ...DEFAULT_LIMITS, ...options.requestLimits } }),
    ...(options.responses && { responses: options.responses }),
    ...(options.cors && { cors: options.cors }),
    ...(options.cache && { cache: { ...DEFAULT_CACHE, ...options.cache } }),
    ...(options.knowledge && { knowledge: options.knowledge }),
    ...(options.shieldModel && { shieldModel: options.shieldModel }),
    ...(options.evidence && { evidence: { ...DEFAULT_EVIDENCE, ...options.evidence } }),
  }
}

/** An OpenAI-compatible provider at this address. Input tokens cost one millionth of a dollar, output tokens two. */
export const upstreamProvider = (name: string, baseUrl: string, models?: readonly string[]): EndpointConfig => ({
  name,
  kind: 'openai',
  baseUrl,
  apiKey: 'sk-upstream-secret',
  headers: {},
  models,
  prices: { '*': { input: 1, output: 2 } },
})

/** Parses the frames of an event stream. Fails on anything except frames, comments and `[DONE]`. */
export function toFrames(text: string): { frames: ChatFrame[]; done: boolean } {
  const frames: ChatFrame[] = []
  let done = false
  for (const event of text.split('\n\n')) {
    if (event === '' || event.startsWith(':')) continue
    if (done || !event.startsWith('data: ')) throw new Error(`not a frame: ${event}`)
    if (event === 'data: [DONE]') done = true
    else frames.push(JSON.parse(event.slice('data: '.length)))
  }
  return { frames, done }
}

/** Concatenates the text of all chunks of a stream. */
export function textOf(frames: readonly ChatFrame[]): string {
  return frames
    .flatMap((frame) => (frame.type === 'chunk' ? frame.data.choices : []))
    .map((choice) => choice.delta.content ?? '')
    .join('')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function countingClock(clock: Clock): Clock & { readonly outstanding: number } {
  const open = new Set<object>()
  return {
    now: clock.now,
    monotonic: clock.monotonic,
    after(ms, run) {
      const token = {}
      open.add(token)
      const timer = clock.after(ms, () => {
        open.delete(token)
        run()
      })
      return {
        cancel() {
          open.delete(token)
          timer.cancel()
        },
      }
    },
    get outstanding() {
      return open.size
    },
  }
}

function collectingLog(lines: LogLine[], written: Log): Log {
  const at = (level: LogLine['level']) => (facts: object, message: string) => {
    lines.push({ level, facts: { ...facts }, message })
    // Otherwise a failed test shows only the 500 of the response.
    if (message === 'a request failed with an unexpected error') process.stderr.write(`${inspect(facts)}\n`)
    written[level](facts, message)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Writes log lines in the daemon's format and passes them to the secret watch. */
const watchedLog = (): DaemonLog =>
  createLog(
    'debug',
    new Writable({
      decodeStrings: false,
      write(lines: string, _, done) {
        secretWatch.record('the log', lines)
        done()
      },
    }),
  )

/** Routes whose request bodies are sent to a model. */
const MODEL_ROUTES =
  /(\/(chat\/completions|completions|messages|embeddings|responses|moderations|rerank|policy-check|prompt-shield\/scan)|Contents?|:countTokens)(\?.*)?$/
/** Routes that return texts of customers. */
const CUSTOMER_ROUTES = /\/(indexes|guard-rules|prompt-shield|conversations)\b/

const nameOf = (method: string, path: string) => `${method} ${path.split('?')[0]}`

/** Passes responses other than model answers to the secret watch, and registers the new secrets that they show. */
function watchAnswer(method: string, path: string, status: number, text: string): void {
  secretWatch.addGenerated(text)
  const isRead = method === 'GET' && status < 400
  if (status >= 400 || isRead) {
    secretWatch.record(`${status} of ${nameOf(method, path)}`, text, {
      mayContainText: isRead && CUSTOMER_ROUTES.test(path),
    })
  }
  for (const [frame] of text.matchAll(/^data: \{("type":"error"|"error":).*$/gm)) {
    secretWatch.record(`an error frame of ${nameOf(method, path)}`, frame)
  }
}

function watchSecretsOf({ bootstrapKey, masterKey, providers }: Config): void {
  if (bootstrapKey !== undefined) secretWatch.addSecret('the key of the operator', bootstrapKey)
  if (masterKey !== undefined) secretWatch.addSecret('the master key', masterKey)
  for (const provider of providers) {
    if (provider.apiKey !== undefined) secretWatch.addSecret('the key of a provider', provider.apiKey)
    const keys = 'apiKeys' in provider ? (provider.apiKeys ?? []) : []
    for (const { key } of keys) secretWatch.addSecret('one of the keys of a provider', key)
    for (const value of Object.values(provider.headers)) secretWatch.addSecret('a header for a provider', value)
    const { secretAccessKey = '', sessionToken = '' } = (provider.kind === 'bedrock' && provider.credentials) || {}
    const { privateKey = '' } = (provider.kind === 'vertex' && provider.credentials) || {}
    for (const value of [secretAccessKey, sessionToken, privateKey])
      secretWatch.addSecret('credentials of a provider', value)
  }
}
