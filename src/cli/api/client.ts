/** Sends requests to the gateway, with retries, timeouts and dry runs. */
import http from 'node:http'
import https from 'node:https'
import { Readable } from 'node:stream'
import { urlToHttpOptions } from 'node:url'
import { CliError, EXIT } from '../errors.ts'
import { type Io, type Note, pause } from '../io.ts'
import { getKey, keyHints } from '../profile/key-source.ts'
import type { Settings } from '../profile/profile.ts'
import { brokenAnswer, notAGateway, redirected, timedOut, toHttpError, unfinished, unreachable } from './http-errors.ts'
import { withoutSecretMembers } from './secret-members.ts'
import { createTrace, type Trace } from './trace.ts'

/** The default timeout of one call. */
export const CALL_TIMEOUT_MS = 30_000
/** Maximum size in bytes of a response body that `read` and `send` buffer. */
const ANSWER_BYTES = 256 * 1024 * 1024
const BACKOFF_MS = 200
/**
 * The longest `Retry-After` that the client waits for. If the gateway asks for a longer wait, the command exits
 * immediately with exit code 7.
 */
const LONGEST_WAIT_SECONDS = 5

export type UploadBody = { type: string; length: number; open(): AsyncIterable<Uint8Array> }

export type ApiRequest = {
  method: string
  /** The path is relative to `/api/external/`, or to the root if it begins with a slash. */
  path: string
  query?: Record<string, string | number | undefined>
  json?: unknown
  upload?: UploadBody
  headers?: Record<string, string>
  /** Sends the request without a key. Probes use this. */
  anonymous?: true
  /** Overrides the configured key. `login` uses this to validate a key before saving it. */
  key?: string
  /** True if sending the request twice has the same effect as sending it once. A GET is always repeatable. */
  repeatable?: boolean
  /** Timeout for the first byte of the response. With `read` and `send`, it covers the whole response. */
  timeoutMs?: number
  /** Overrides `--retries`. */
  retries?: number
  /** Also aborts a response in progress, for instance after `--timeout`. */
  signal?: AbortSignal
}

export type OpenAnswer = {
  status: number
  headers: http.IncomingHttpHeaders
  requestId: string | undefined
  body: http.IncomingMessage
  timeoutMs: number
  /** The monotonic time at which the timeout expires. */
  endsAt: number
}

type FailedAnswer = Pick<OpenAnswer, 'status' | 'headers' | 'requestId'> & { raw: Uint8Array }
type Answer<Body> = { status: number; body: Body; raw: Buffer; requestId: string | undefined }

export type Api = {
  baseUrl: string
  /**
   * Returns the response before its body is read, for any status. Throws an error with exit code 4 if no key is set,
   * and one with exit code 9 if no response arrives.
   */
  open(request: ApiRequest): Promise<OpenAnswer>
  /**
   * Yields the chunks of the body. Throws an error with exit code 8 if the body is truncated. With `bounded`, also
   * throws an error with exit code 8 if the body is incomplete at the timeout.
   */
  parts(answer: OpenAnswer, options: { bounded: boolean }): AsyncGenerator<Buffer>
  /** Returns the whole body, for any status. The timeout of the request also covers the body. */
  read(answer: OpenAnswer): Promise<Buffer>
  /** Returns the JSON of a 2xx response. Throws an error for any other status (docs/cli.md, Errors and exit codes). */
  send<Body extends object>(request: ApiRequest): Promise<Answer<Body>>
  /** Returns the error for a response with an error status. */
  toError(answer: FailedAnswer): CliError
  /** Closes idle connections and discards unread responses. */
  close(): void
}

/** With `--dry-run`, the client throws this instead of sending the request. The program then prints the request. */
export class DryRun extends Error {
  override name = 'DryRun'
  readonly request: object

  constructor(request: object) {
    super('dry run: nothing was sent')
    this.request = request
  }
}

type ApiDeps = { settings: Settings; io: Io; note: Note }

/** Sends all calls of this run to one gateway over kept-alive connections. Redirects are never followed. */
export function createApi({ settings, io, note }: ApiDeps): Api {
  const { baseUrl } = settings
  const secure = baseUrl.startsWith('https:')
  const agent = secure ? new https.Agent({ keepAlive: true }) : new http.Agent({ keepAlive: true })
  const trace = createTrace({ settings, io })
  let ownKey: Promise<string> | undefined

  const keyFor = async (request: ApiRequest): Promise<string | undefined> => {
    if (request.anonymous) return undefined
    if (request.key !== undefined) return request.key
    ownKey ??= getKey(settings, io, note)
    return ownKey
  }

  const open = async (request: ApiRequest): Promise<OpenAnswer> => {
    const url = toUrl(baseUrl, request)
    if (settings.dryRun && request.method !== 'GET') throw new DryRun(describeRequest(url, request))
    const key = await keyFor(request)
    const retries = request.retries ?? settings.retries
    const signal = signalOf(request, io)
    for (let triesLeft = retries; ; triesLeft--) {
      const outcome = await attempt(url, request, key, { agent, secure, io, trace, settings }).catch(
        (error: unknown) => {
          if (error instanceof CliError && triesLeft > 0 && error.retryable) return error
          throw error
        },
      )
      const waitMs = waitBeforeRetry(outcome, request, retries - triesLeft)
      if (triesLeft === 0 || waitMs === undefined) {
        if (outcome instanceof CliError) throw outcome
        return outcome
      }
      if (!(outcome instanceof CliError)) outcome.body.resume()
      await pause(waitMs, { clock: io.clock, signal })
    }
  }

  async function* parts(answer: OpenAnswer, { bounded }: { bounded: boolean }): AsyncGenerator<Buffer> {
    const { body, requestId, timeoutMs } = answer
    const late = () => body.destroy(unfinished(timeoutMs, requestId))
    const timer = bounded ? io.clock.after(answer.endsAt - io.clock.monotonic(), late) : undefined
    const shown = trace.answerBody()
    try {
      for await (const chunk of body) {
        shown.push(chunk)
        yield chunk
      }
    } catch (error) {
      if (error instanceof CliError || io.signal.aborted) throw error
      throw brokenAnswer(error, requestId)
    } finally {
      timer?.cancel()
      shown.end()
    }
  }

  const read = async (answer: OpenAnswer): Promise<Buffer> => {
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of parts(answer, { bounded: true })) {
      chunks.push(chunk)
      size += chunk.length
      if (size > ANSWER_BYTES) throw new CliError(EXIT.error, `the answer is longer than ${ANSWER_BYTES} bytes`)
    }
    return Buffer.concat(chunks)
  }

  const toError = ({ status, headers, requestId, raw }: FailedAnswer, ownHints?: string[]) => {
    const hints = ownHints ?? keyHints(settings, io.env)
    return toHttpError({ status, requestId, raw, headers }, { baseUrl, now: io.clock.now(), keyHints: hints })
  }

  return {
    baseUrl,
    open,
    toError,
    parts,
    read,
    close: () => agent.destroy(),
    async send<Body extends object>(request: ApiRequest) {
      const answer = await open(request)
      const raw = await read(answer)
      const { status, requestId } = answer
      if (status >= 300 && status < 400) throw redirected(baseUrl, answer.headers.location)
      if (status < 200 || status >= 300) {
        // `login` sends a key that is not saved yet.
        const hints = request.key === undefined ? undefined : ['The gateway rejected this key. Nothing was saved.']
        throw toError({ status, requestId, raw, headers: answer.headers }, hints)
      }
      return { status, body: parseAnswer<Body>(raw, baseUrl, requestId), raw, requestId }
    },
  }
}

/**
 * Parses a body that contains an object or an array. The type of the result comes from the wire schemas. The result
 * itself is not validated.
 */
export function parseAnswer<Body extends object>(raw: Buffer, baseUrl: string, requestId: string | undefined): Body {
  try {
    const body = JSON.parse(raw.toString())
    if (typeof body === 'object' && body !== null) return body
  } catch {}
  throw notAGateway(EXIT.error, `${baseUrl} did not answer with JSON`, { requestId })
}

/** Returns the full URL of a request. The path cannot change the host. */
function toUrl(baseUrl: string, { path, query = {} }: Pick<ApiRequest, 'path' | 'query'>): URL {
  const url = new URL(baseUrl)
  const [pathname = '', search = ''] = splitOnce(path, '?')
  url.pathname = `${url.pathname.replace(/\/$/, '')}${pathname.startsWith('/') ? '' : '/api/external/'}${pathname}`
  url.search = search
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  return url
}

function splitOnce(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

const describeRequest = (url: URL, { method, headers = {}, json, upload }: ApiRequest): object => ({
  method,
  url: url.href,
  headers: { authorization: 'Bearer ***', ...headers },
  ...(json === undefined ? {} : { body: withoutSecretMembers(json) }),
  ...(upload === undefined ? {} : { body: `${upload.type.split(';')[0]}, ${upload.length} bytes` }),
})

type AttemptDeps = { agent: http.Agent; secure: boolean; io: Io; trace: Trace; settings: Settings }

function attempt(url: URL, request: ApiRequest, key: string | undefined, deps: AttemptDeps): Promise<OpenAnswer> {
  const { agent, secure, io, trace, settings } = deps
  const body = request.json === undefined ? undefined : Buffer.from(JSON.stringify(request.json))
  const length = body?.length ?? request.upload?.length
  const type = body === undefined ? request.upload?.type : 'application/json'
  const headers: Record<string, string> = {
    accept: 'application/json',
    'user-agent': 'aigw-cli',
    ...request.headers,
    ...(type === undefined ? {} : { 'content-type': type }),
    ...(length === undefined ? {} : { 'content-length': String(length) }),
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  }
  const timeoutMs = request.timeoutMs ?? settings.timeoutMs ?? CALL_TIMEOUT_MS
  const signal = signalOf(request, io)
  const startedAt = io.clock.monotonic()
  trace.request(request.method, url, headers, body)

  return new Promise((resolve, reject) => {
    const options = { ...urlToHttpOptions(url), method: request.method, headers, agent, signal }
    const sent = (secure ? https : http).request(options)
    const timer = io.clock.after(timeoutMs, () => sent.destroy(timedOut(settings.baseUrl, timeoutMs)))
    sent.once('response', (response) => {
      timer.cancel()
      const header = response.headers['x-request-id']
      const requestId = typeof header === 'string' ? header : undefined
      const status = response.statusCode ?? 0
      trace.answer(status, response.headers, requestId, io.clock.monotonic() - startedAt)
      const { headers: answered } = response
      resolve({ status, headers: answered, requestId, body: response, timeoutMs, endsAt: startedAt + timeoutMs })
    })
    sent.on('error', (error) => {
      timer.cancel()
      if (io.signal.aborted || error instanceof CliError) return reject(io.signal.aborted ? io.signal.reason : error)
      if (request.signal?.aborted) return reject(request.signal.reason)
      reject(unreachable(settings.baseUrl, error, { repeatable: isRepeatable(request) }))
    })
    if (request.upload === undefined) return void sent.end(body)
    // If an error response arrives during the upload, the caller gets that response instead of the upload's EPIPE
    // error.
    const source = Readable.from(request.upload.open(), { objectMode: false })
    source.on('error', (error) => sent.destroy(error))
    sent.once('close', () => source.destroy())
    source.pipe(sent)
  })
}

const signalOf = ({ signal }: ApiRequest, io: Io): AbortSignal =>
  signal === undefined ? io.signal : AbortSignal.any([io.signal, signal])

const isRepeatable = (request: ApiRequest): boolean => request.method === 'GET' || request.repeatable === true

/**
 * Returns the milliseconds until the next retry. Returns undefined if the request must not be retried. Every `CliError`
 * that arrives here is retryable.
 */
function waitBeforeRetry(outcome: OpenAnswer | CliError, request: ApiRequest, triesMade: number): number | undefined {
  const backoffMs = BACKOFF_MS * 2 ** triesMade
  if (outcome instanceof CliError) return backoffMs
  const asked = Number(outcome.headers['retry-after'] ?? Number.NaN)
  // The gateway sends 429 and 503 only before it does any work, so every request is safe to retry after these statuses.
  if (outcome.status === 429 || outcome.status === 503) return asked <= LONGEST_WAIT_SECONDS ? asked * 1_000 : undefined
  return (outcome.status === 502 || outcome.status === 504) && request.method === 'GET' ? backoffMs : undefined
}
