import type { IncomingMessage, ServerResponse } from 'node:http'
import type { z } from 'zod'
import type { GatewayError } from '../../../shared/errors.ts'
import { toObjectId } from '../../../shared/ids.ts'
import type { Section } from '../../../shared/permissions.ts'
import { FlatError, StructuredError } from '../../../shared/wire/common.ts'
import type { RateCounterRow } from '../db/tables.ts'
import type { Caller } from './caller.ts'
import type { Observed, RequestTrace } from './observed.ts'
import type { EventStream } from './sse.ts'

/** Default maximum size of a body. */
const DEFAULT_BODY_BYTES = 65_536

/**
 * Who may call a route. `Access` has no default value, so each route must set it. A section of the administration
 * requires level `reader` for GET and `admin` for all other methods.
 */
export type Access = 'none' | 'key' | 'operator' | Section

/**
 * The rate limits of a route. `write` and `read` are the classes of administration. These requests are also counted per
 * route, in addition to the key's own limits. `unmetered` skips the daily and monthly counters.
 */
export type RateClass = 'write' | 'read' | 'general' | 'unmetered'

/** The shape of a route's error bodies: one of our two shapes, or the shape of OpenAI, Anthropic or Google. */
export type ErrorShape = 'flat' | 'structured' | 'openai' | 'anthropic' | 'google'

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** A finished response. `body` is an object that is sent as JSON, a string that is already JSON, or bytes. */
export type Reply = { status: number; body: object | string; headers?: Record<string, string> }

export const reply = (status: number, body: object | string, headers?: Record<string, string>): Reply =>
  headers === undefined ? { status, body } : { status, body, headers }

/** The context of a handler. `body` and `query` are validated. */
export type RequestContext<Body = unknown, Query = unknown> = {
  requestId: string
  /** Method and path pattern of the route: `PUT /api/external/groups/{groupId}`. */
  endpoint: string
  /** The access that the route requires. */
  access: Access
  caller: Caller
  params: Record<string, string>
  query: Query
  body: Body
  /** SHA-256 of the body as received, hex; empty unless the route sets `hashesBody`. */
  bodySha256: string
  /** Whether the body exceeds LARGE_JSON_BYTES. Code that converts or hashes the whole request must then yield. */
  isLarge: boolean
  /** The evidence id of this request. The handler sets it once the request is certain to leave evidence. */
  bundleId: string | undefined
  /** A handler that calls models sets this once the request's end is recorded. */
  observed: Observed | undefined
  /** Undefined if the operator collects no traces. */
  readonly trace: RequestTrace | undefined
  request: IncomingMessage
  response: ServerResponse
  /** Aborted if the client disconnects before its response is complete, or if the drain times out. */
  signal: AbortSignal
  /** Aborted only if the drain times out. For work that must outlive its client. */
  shutdown: AbortSignal
  /**
   * Returns the key's counters that this request has incremented and that are not durable yet. A handler that commits
   * includes them in its transaction and then calls `countersStored`. Otherwise the edge commits them before the
   * response is sent.
   */
  unstoredCounters(): readonly RateCounterRow[]
  countersStored(): void
  /** Starts a text/event-stream response. After this call, the handler must return undefined. */
  openStream(headers?: Record<string, string>): EventStream
}

/**
 * A documented response. `schema` describes the JSON body. `stream` describes the frames of a text/event-stream. `text`
 * is the media type of a body in another text format.
 */
export type ResponseDoc = {
  description: string
  schema?: z.ZodType
  stream?: z.ZodType
  text?: 'text/plain' | 'text/csv' | 'text/html' | 'application/octet-stream'
}

export type Route = {
  method: Method
  /**
   * The full path. The value of a `{name}` segment is decoded and passed to the handler. Text after the last `}`, such
   * as `:generateContent`, must end the path.
   */
  path: string
  /** If true, the last segment of the pattern matches the rest of the path, including slashes. */
  takesRest?: true
  /** The route also accepts the API key as the query parameter `key`. */
  takesKeyInAddress?: true
  access: Access
  rate: RateClass
  /** The rate class of this request, for a route with two kinds of response. Overrides `rate`. */
  rateOf?(request: IncomingMessage): RateClass
  errors: ErrorShape
  /** Shown in /openapi.json. */
  summary: string
  tags: string[]
  body?: z.ZodType
  /**
   * True for a POST or DELETE whose body has no required property. An empty body then means `{}`, with any
   * Content-Type.
   */
  bodyOptional: boolean
  query?: z.ZodType
  /**
   * The text of flat errors is `Invalid request` instead of `Invalid <parameter>`, as the contract requires for some
   * routes.
   */
  unnamedParameters?: true
  /** The route calls models, so it must not use the capacity that is reserved for other routes. */
  callsModels?: true
  /** The route supports the Idempotency-Key header. */
  takesIdempotencyKey?: true
  /** The route supports the header of the answer cache. */
  usesCache?: true
  /** Schemas of the documented responses, by status. They are shown in /openapi.json and checked by the tests. */
  responses: Record<number, ResponseDoc>
  /** Maximum size of a JSON body in bytes. With `'unread'`, the body is not read before the handler runs. */
  bodyLimit: number | 'unread'
  /** Maximum nesting of the JSON body; default JSON_DEPTH. */
  jsonDepth?: number
  /** True if the handler needs the hash of the received body. */
  hashesBody?: boolean
  handle(context: RequestContext): Promise<Reply | undefined>
}

type RouteOptions<Body extends z.ZodType, Query extends z.ZodType> = Omit<
  Route,
  'body' | 'bodyOptional' | 'query' | 'handle' | 'bodyLimit' | 'rate'
> & {
  rate?: RateClass
  body?: Body
  /** The handler requires more than the schema does, so a request without a body is rejected. */
  bodyRequired?: true
  query?: Query
  bodyLimit?: number | 'unread'
  handle(context: RequestContext<z.output<Body>, z.output<Query>>): Promise<Reply | undefined>
}

/**
 * Declares a route. The handler's `body` and `query` have the types of their schemas. `responses` describes the
 * handler's responses. Rejections before the handler are added, unless the route describes their status itself.
 */
export function route<Body extends z.ZodType = z.ZodUndefined, Query extends z.ZodType = z.ZodUndefined>(
  options: RouteOptions<Body, Query>,
): Route {
  const { bodyRequired, ...described } = options
  const { bodyLimit = DEFAULT_BODY_BYTES, rate = 'general', body } = described
  const responses = { ...refusalsOf({ ...described, bodyLimit }), ...described.responses }
  // A PUT with {} changes nothing. A missing body means that the client lost the body, so the request must fail.
  const mayBeLeftOut = described.method === 'POST' || described.method === 'DELETE'
  const bodyOptional = mayBeLeftOut && !bodyRequired && bodyLimit !== 'unread' && body?.safeParse({}).success === true
  return { ...described, bodyLimit, bodyOptional, rate, responses } as Route
}

/**
 * Returns the id from a path, in lower case. An invalid id is rejected without a query. @throws the error that
 * `unknown` creates
 */
export function idOf(text: string | undefined, unknown: (text: string) => GatewayError): string {
  const id = toObjectId(text)
  if (id === undefined) throw unknown((text ?? '').slice(0, SHOWN_ID_CHARS))
  return id
}

/** Errors show an invalid id, shortened to this length. */
const SHOWN_ID_CHARS = 100

/** Method and path pattern. This is the name of a route in logs, counters and audit entries. */
export const endpointOf = ({ method, path }: Pick<Route, 'method' | 'path'>): string => `${method} ${path}`

type Described = Pick<Route, 'access' | 'errors' | 'path' | 'bodyLimit'> & Partial<Pick<Route, 'body' | 'query'>>

/**
 * The responses that a route may send before its handler runs, by status. Routes with OpenAI's or Anthropic's error
 * shape describe these statuses themselves.
 */
function refusalsOf({ access, errors, path, body, query, bodyLimit }: Described): Record<number, ResponseDoc> {
  const schema = errors === 'structured' ? StructuredError : FlatError
  const refused = (description: string): ResponseDoc => ({ description, schema })
  const takesBody = body !== undefined || bodyLimit === 'unread'
  return {
    ...((takesBody || query || path.includes('{')) && { 400: refused('A field or parameter is missing or invalid') }),
    ...(access !== 'none' && {
      401: refused('Key missing or invalid'),
      403: refused(REFUSED_ACCESS[access] ?? 'Not an administrator, or the key may not be used from this address'),
      429: refused('A limit of the key, or of this route, is reached'),
    }),
    ...(takesBody && { 413: refused('The body is too large') }),
    ...(body && { 415: refused('The body is not declared as JSON') }),
  }
}

const REFUSED_ACCESS: Record<string, string> = {
  key: 'The key may not be used from this address',
  operator: 'Not the operator key, or it may not be used from this address',
}
