import type { IncomingMessage, ServerResponse } from 'node:http'
import type { z } from 'zod'
import type { GatewayError } from '../../../shared/errors.ts'
import { toObjectId } from '../../../shared/ids.ts'
import type { Section } from '../../../shared/permissions.ts'
import { DEFAULT_BODY_BYTES } from '../../../shared/spec-limits.ts'
import { FlatError, StructuredError } from '../../../shared/wire/common.ts'
import type { RateCounterRow } from '../db/tables.ts'
import type { Caller } from './caller.ts'
import type { EventStream } from './sse.ts'

/**
 * Who may call a route. Deny is the default: a route that names nothing does not compile. A section of the administration
 * asks for level `reader` on GET and for `admin` on everything else (architecture §6).
 */
export type Access = 'none' | 'key' | 'operator' | Section

/**
 * How often a key may call a route (named-endpoints §1.2): `write` and `read` are the classes of administration, counted
 * for each route on top of what the key may do in all; `unmetered` leaves the daily and monthly counters alone.
 */
export type RateClass = 'write' | 'read' | 'general' | 'unmetered'

/** Which error bodies a route answers with: one of the two of the spec, or those that the clients of others know. */
export type ErrorShape = 'flat' | 'structured' | 'openai' | 'anthropic'

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** A finished answer. `body` is an object to be sent as JSON, or a string that is JSON already. */
export type Reply = { status: number; body: object | string; headers?: Record<string, string> }

export const reply = (status: number, body: object | string, headers?: Record<string, string>): Reply =>
  headers === undefined ? { status, body } : { status, body, headers }

/** What a handler is given. `body` and `query` have passed their schemas. */
export type RequestContext<Body = unknown, Query = unknown> = {
  requestId: string
  /** Method and path pattern of the route: `PUT /api/external/groups/{groupId}`. */
  endpoint: string
  /** What the route asks of its callers. */
  access: Access
  caller: Caller
  params: Record<string, string>
  query: Query
  body: Body
  /** SHA-256 of the body as it was received, hex; empty unless the route asks for it (`hashesBody`). */
  bodySha256: string
  /** What the evidence of this request is called, once it is certain that there will be some. Set by the handler. */
  bundleId: string | undefined
  request: IncomingMessage
  response: ServerResponse
  /** Aborted when the client goes away before its answer is complete, or when the daemon gives up draining. */
  signal: AbortSignal
  /** Aborted only when the daemon gives up draining: for work that must outlive its client. */
  shutdown: AbortSignal
  /**
   * The counters of the key that this request has raised. A handler that commits something of its own before its last byte
   * takes them along, and throws when it cannot commit; for all others the edge commits them.
   */
  takeCounters(): readonly RateCounterRow[]
  /** Starts a text/event-stream answer; the handler then returns undefined. */
  openStream(headers?: Record<string, string>): EventStream
}

/** A documented answer: its JSON, the frames when it can be a text/event-stream, and the type when it can be another text. */
export type ResponseDoc = {
  description: string
  schema?: z.ZodType
  stream?: z.ZodType
  text?: 'text/plain' | 'text/csv' | 'text/html'
}

export type Route = {
  method: Method
  /** Absolute, with `{name}` for a segment that is handed to the handler decoded. */
  path: string
  /** The last segment of the path takes all that is left of it, slashes too. */
  takesRest?: true
  access: Access
  rate: RateClass
  /** Which class this request has in place of `rate`, for a route with two ways to answer. */
  rateOf?(request: IncomingMessage): RateClass
  errors: ErrorShape
  /** Shown in /openapi.json. */
  summary: string
  tags: string[]
  body?: z.ZodType
  /** Nothing in the body of a POST or DELETE is required, so an empty one means `{}`, whatever its Content-Type. */
  bodyOptional: boolean
  query?: z.ZodType
  /** Flat errors say `Invalid request` in place of `Invalid <parameter>`, as the contract has it for some routes. */
  unnamedParameters?: true
  /** The route honours the Idempotency-Key header. */
  takesIdempotencyKey?: true
  /** Schemas of the documented answers by status; shown in /openapi.json and checked by the tests. */
  responses: Record<number, ResponseDoc>
  /** Largest JSON body in bytes; `'unread'` leaves the body to the handler. */
  bodyLimit: number | 'unread'
  /** Levels that its JSON may nest; JSON_DEPTH unless given. */
  jsonDepth?: number
  /** The handler wants to know the hash of the body that was received. */
  hashesBody?: boolean
  handle(context: RequestContext): Promise<Reply | undefined>
}

type RouteOptions<Body extends z.ZodType, Query extends z.ZodType> = Omit<
  Route,
  'body' | 'bodyOptional' | 'query' | 'handle' | 'bodyLimit' | 'rate'
> & {
  rate?: RateClass
  body?: Body
  /** The handler asks for more than the schema does, so a request without a body is a mistake. */
  bodyRequired?: true
  query?: Query
  bodyLimit?: number | 'unread'
  handle(context: RequestContext<z.output<Body>, z.output<Query>>): Promise<Reply | undefined>
}

/**
 * Declares a route; the handler's `body` and `query` have the types of their schemas. `responses` are those of the handler:
 * what is refused before it runs is added, unless the route describes that status itself.
 */
export function route<Body extends z.ZodType = z.ZodUndefined, Query extends z.ZodType = z.ZodUndefined>(
  options: RouteOptions<Body, Query>,
): Route {
  const { bodyRequired, ...described } = options
  const { bodyLimit = DEFAULT_BODY_BYTES, rate = 'general', body } = described
  const responses = { ...refusalsOf({ ...described, bodyLimit }), ...described.responses }
  // PUT with {} changes nothing. Whoever sends it without a body has lost it, and must not be told that it worked.
  const mayBeLeftOut = described.method === 'POST' || described.method === 'DELETE'
  const bodyOptional = mayBeLeftOut && !bodyRequired && bodyLimit !== 'unread' && body?.safeParse({}).success === true
  return { ...described, bodyLimit, bodyOptional, rate, responses } as Route
}

/** The id in a path, in lower case. What cannot be one is not asked for. @throws what `unknown` makes of it */
export function idOf(text: string | undefined, unknown: (text: string) => GatewayError): string {
  const id = toObjectId(text)
  if (id === undefined) throw unknown((text ?? '').slice(0, SHOWN_ID_CHARS))
  return id
}

/** What was given for an id is shown back, but not all of a text that somebody made long. */
const SHOWN_ID_CHARS = 100

/** Method and path pattern, as logs, counters and audit entries name a route. */
export const endpointOf = ({ method, path }: Pick<Route, 'method' | 'path'>): string => `${method} ${path}`

type Described = Pick<Route, 'access' | 'errors' | 'path' | 'bodyLimit'> & Partial<Pick<Route, 'body' | 'query'>>

/**
 * What a route may answer before its handler runs, by status: the same for all that ask for the same. Routes that answer in
 * the shape of somebody else's interface describe these statuses themselves.
 */
function refusalsOf({ access, errors, path, body, query, bodyLimit }: Described): Record<number, ResponseDoc> {
  const schema = errors === 'structured' ? StructuredError : FlatError
  const refused = (description: string): ResponseDoc => ({ description, schema })
  const takesBody = body !== undefined || bodyLimit === 'unread'
  return {
    ...((takesBody || query || path.includes('{')) && { 400: refused('A field or parameter is missing or wrong') }),
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
