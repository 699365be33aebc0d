// Finds the route for a path.
import { GatewayError } from '../../../shared/errors.ts'
import type { ErrorShape, Route } from './route.ts'

export type Match = { route: Route; params: Record<string, string> }

export type Router = {
  /** @throws NOT_FOUND, METHOD_NOT_ALLOWED, or INVALID_HTTP for a path that cannot be decoded. */
  match(method: string, path: string): Match
  /**
   * The shape of errors that `match` throws: the shape of the route that the path matches. In `/v1`, an unknown path
   * uses the route above it, or else OpenAI's shape.
   */
  shapeOf(method: string, path: string): ErrorShape
}

/** `suffix`: the text after the last parameter, which must end the path. */
type Pattern = { path: string; segments: string[]; suffix: string; takesRest: boolean; byMethod: Map<string, Route> }

/** Many clients put `/v1` or `/v1beta` directly after the host, regardless of their base URL. */
const toLongPath = (path: string): string => (/^\/v1(?:beta)?(?:\/|$)/.test(path) ? `/api/external${path}` : path)

/** The path without `/api/external`, if the route is also served there. */
export const toShortPath = (path: string): string | undefined =>
  /^\/api\/external\/v1(?:beta)?\//.test(path) ? path.slice('/api/external'.length) : undefined

/** Newer clients of Google use `/v1` instead of `/v1beta`. The action tells these routes from those of OpenAI. */
const GOOGLE_ACTION =
  /^\/api\/external\/v1\/models\/.+:(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$/

const toGooglePath = (method: string, path: string): string =>
  method === 'POST' && GOOGLE_ACTION.test(path) ? path.replace('/v1/', '/v1beta/') : path

/** Routes for clients of other APIs are below this segment of a full path. */
const CLIENTS = { at: 3, name: 'v1' } as const
/** Routes for Google's clients. */
const GOOGLE_PREFIX = '/api/external/v1beta/'

const NO_PARAMS: Record<string, string> = Object.freeze({})

/** Builds the route table. @throws Error if two routes have the same method and path. */
export function createRouter(routes: readonly Route[]): Router {
  const fixed = new Map<string, Map<string, Route>>()
  const patterns: Pattern[] = []
  for (const route of routes) add(fixed, patterns, route)

  return {
    match(method, requested) {
      const long = toLongPath(requested)
      const exact = fixed.get(long)
      if (exact) return { route: pick(exact, method, long), params: NO_PARAMS }
      const path = toGooglePath(method, long)
      const segments = path.split('/')
      const pattern = patterns.find((one) => fits(one, segments))
      if (!pattern) {
        throw new GatewayError('NOT_FOUND', `There is no route ${path}. GET /openapi.json lists every route.`)
      }
      return { params: paramsOf(pattern, segments), route: pick(pattern.byMethod, method, path) }
    },
    shapeOf(method, requested) {
      const path = toGooglePath(method, toLongPath(requested))
      const segments = path.split('/')
      const byMethod = fixed.get(path) ?? patterns.find((one) => fits(one, segments))?.byMethod
      const route =
        byMethod?.get(lookupMethod(method)) ?? byMethod?.values().next().value ?? routeAbove(fixed, segments)
      if (route) return route.errors
      if (path.startsWith(GOOGLE_PREFIX)) return 'google'
      if (isOfClients(segments)) return 'openai'
      return path.startsWith('/api/admin/') ? 'structured' : 'flat'
    },
  }
}

/**
 * An unknown path below `/v1` comes from a client that uses the route above it. The error therefore has the shape of
 * that route.
 */
function routeAbove(fixed: Map<string, Map<string, Route>>, segments: string[]): Route | undefined {
  if (!isOfClients(segments)) return undefined
  for (let end = segments.length - 1; end > CLIENTS.at; end--) {
    const above = fixed.get(segments.slice(0, end).join('/'))
    if (above) return above.values().next().value
  }
  return undefined
}

const isOfClients = (segments: readonly string[]): boolean => segments[CLIENTS.at] === CLIENTS.name

function add(fixed: Map<string, Map<string, Route>>, patterns: Pattern[], route: Route): void {
  let byMethod: Map<string, Route>
  if (!route.path.includes('{')) {
    byMethod = fixed.get(route.path) ?? new Map()
    fixed.set(route.path, byMethod)
  } else {
    let pattern = patterns.find((known) => known.path === route.path)
    if (!pattern) {
      const end = route.path.lastIndexOf('}') + 1
      const suffix = route.path.indexOf('/', end) < 0 ? route.path.slice(end) : ''
      const segments = route.path.slice(0, route.path.length - suffix.length).split('/')
      pattern = { path: route.path, segments, suffix, takesRest: route.takesRest === true, byMethod: new Map() }
      patterns.push(pattern)
    }
    byMethod = pattern.byMethod
  }
  if (byMethod.has(route.method)) throw new Error(`two routes claim ${route.method} ${route.path}`)
  byMethod.set(route.method, route)
}

/** HEAD is handled like GET, without the body. */
const lookupMethod = (method: string): string => (method === 'HEAD' ? 'GET' : method)

function pick(byMethod: Map<string, Route>, method: string, path: string): Route {
  const found = byMethod.get(lookupMethod(method))
  if (found) return found
  const allowed = [...byMethod.keys()].join(', ')
  throw new GatewayError('METHOD_NOT_ALLOWED', `${path} does not support ${method}. Supported: ${allowed}.`, {
    allow: allowed,
  })
}

const isParameter = (segment: string): boolean => segment.startsWith('{')

const fits = ({ segments: expected, suffix, takesRest }: Pattern, segments: string[]): boolean =>
  (takesRest ? expected.length <= segments.length : expected.length === segments.length) &&
  expected.every((segment, at) => (isParameter(segment) ? segments[at] !== '' : segments[at] === segment)) &&
  (suffix === '' || endsWith(segments.at(-1) ?? '', suffix))

/** The text before the suffix is the value of a parameter, so it must not be empty. */
const endsWith = (segment: string, suffix: string): boolean =>
  segment.length > suffix.length && segment.endsWith(suffix)

function paramsOf({ segments: expected, suffix, takesRest }: Pattern, segments: string[]): Record<string, string> {
  const params: Record<string, string> = {}
  for (const [at, segment] of expected.entries()) {
    if (!isParameter(segment)) continue
    const isLast = at === expected.length - 1
    const text = takesRest && isLast ? segments.slice(at).join('/') : (segments[at] as string)
    params[segment.slice(1, -1)] = decodeSegment(isLast ? text.slice(0, text.length - suffix.length) : text)
  }
  return params
}

function decodeSegment(segment: string): string {
  try {
    const decoded = decodeURIComponent(segment)
    if (!decoded.includes('\0')) return decoded
  } catch {
    // An invalid escape and a NUL get the same response.
  }
  throw new GatewayError('INVALID_HTTP', 'The path contains an invalid percent-escape.')
}
