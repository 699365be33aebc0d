import type { IncomingMessage, ServerResponse } from 'node:http'
import type { z } from 'zod'
import { DEFAULT_BODY_BYTES } from '../../shared/spec-limits.ts'
import type { Caller } from './caller.ts'
import type { EventStream } from './sse.ts'

/** Who may call a route. Deny is the default: a route that names nothing does not compile. */
export type Access = 'none' | 'key' | 'admin' | 'operator'

/** Which of the two error bodies of the spec a route answers with. */
export type ErrorShape = 'flat' | 'structured'

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** A finished answer. `body` is an object to be sent as JSON, or a string that is JSON already. */
export type Reply = { status: number; body: object | string; headers?: Record<string, string> }

export const reply = (status: number, body: object | string, headers?: Record<string, string>): Reply =>
  headers === undefined ? { status, body } : { status, body, headers }

/** What a handler is given. `body` and `query` have passed their schemas. */
export type RequestContext<Body = unknown, Query = unknown> = {
  requestId: string
  caller: Caller
  params: Record<string, string>
  query: Query
  body: Body
  /** The body as it was received; undefined for routes that read it themselves. */
  rawBody: Buffer | undefined
  request: IncomingMessage
  response: ServerResponse
  /** Aborted when the client goes away before its answer is complete, or when the daemon gives up draining. */
  signal: AbortSignal
  /** Aborted only when the daemon gives up draining: for work that must outlive its client. */
  shutdown: AbortSignal
  /** Starts a text/event-stream answer; the handler then returns undefined. */
  openStream(headers?: Record<string, string>): EventStream
}

/** A documented answer: its JSON, and the frames when it can be a text/event-stream too. */
export type ResponseDoc = { description: string; schema?: z.ZodType; stream?: z.ZodType }

export type Route = {
  method: Method
  /** Absolute, with `{name}` for a segment that is handed to the handler decoded. */
  path: string
  access: Access
  errors: ErrorShape
  /** Shown in /openapi.json. */
  summary: string
  tags: string[]
  body?: z.ZodType
  query?: z.ZodType
  /** Schemas of the documented answers by status; shown in /openapi.json and checked by the tests. */
  responses: Record<number, ResponseDoc>
  /** Largest JSON body in bytes; `'unread'` leaves the body to the handler. */
  bodyLimit: number | 'unread'
  handle(context: RequestContext): Promise<Reply | undefined>
}

type RouteOptions<Body extends z.ZodType, Query extends z.ZodType> = Omit<
  Route,
  'body' | 'query' | 'handle' | 'bodyLimit'
> & {
  body?: Body
  query?: Query
  bodyLimit?: number | 'unread'
  handle(context: RequestContext<z.output<Body>, z.output<Query>>): Promise<Reply | undefined>
}

/** Declares a route; the handler's `body` and `query` have the types of their schemas. */
export function route<Body extends z.ZodType = z.ZodUndefined, Query extends z.ZodType = z.ZodUndefined>(
  options: RouteOptions<Body, Query>,
): Route {
  return { bodyLimit: DEFAULT_BODY_BYTES, ...options } as Route
}
