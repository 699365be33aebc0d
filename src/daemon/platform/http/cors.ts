// Cross-origin requests of browsers (Fetch standard, 3.3). Keys are sent in a header and never as credentials.
import type { IncomingMessage } from 'node:http'
import { CACHE_HEADER } from '../../../shared/wire/cache.ts'
import { BUNDLE_ID_HEADER } from './exchange.ts'

/** The origins that the operator allows. `*` allows every origin. */
export type CorsConfig = { origins: readonly string[] }

export type Cors = {
  /** The headers for every response to this request. */
  headersFor(request: IncomingMessage): Record<string, string>
  /** The further headers for a preflight. Undefined if the request is none, or comes from an origin that is not allowed. */
  preflight(request: IncomingMessage): Record<string, string> | undefined
}

/** The headers that pages may read, in addition to those that browsers always show. */
const EXPOSED = [
  'x-request-id',
  BUNDLE_ID_HEADER,
  'retry-after',
  'x-should-retry',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'ratelimit-policy',
  'idempotent-replayed',
  CACHE_HEADER,
].join(', ')
const METHODS = 'GET, POST, PUT, DELETE'
/** How long browsers may use the answer to a preflight. */
const PREFLIGHT_SECONDS = 600
/** The names of headers that a page asks for. */
const HEADER_NAMES = /^[A-Za-z0-9-]+(?:\s*,\s*[A-Za-z0-9-]+)*$/

/** Requests from allowed origins get headers that let pages read the response. Other requests stay as they are. */
export function createCors({ origins }: CorsConfig): Cors {
  const anyOrigin = origins.includes('*')
  const allowed = new Set(origins)
  const isAllowed = (origin: string) => anyOrigin || allowed.has(origin)
  // Without this header, caches could return the response for one origin to a page of another origin.
  const varying: Record<string, string> = anyOrigin ? {} : { vary: 'origin' }
  return {
    headersFor({ headers: { origin } }) {
      if (origin === undefined || !isAllowed(origin)) return varying
      return {
        'access-control-allow-origin': anyOrigin ? '*' : origin,
        'access-control-expose-headers': EXPOSED,
        ...varying,
      }
    },
    preflight({ method, headers: { origin, ...headers } }) {
      const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
      if (!isPreflight || origin === undefined || !isAllowed(origin)) return undefined
      const asked = headers['access-control-request-headers']
      return {
        'access-control-allow-methods': METHODS,
        ...(asked !== undefined && HEADER_NAMES.test(asked) && { 'access-control-allow-headers': asked }),
        'access-control-max-age': String(PREFLIGHT_SECONDS),
      }
    },
  }
}
