import { GatewayError } from '../../shared/errors.ts'
import type { ErrorShape, Method, Route } from './route.ts'

export type Match = { route: Route; params: Record<string, string> }

export type Router = {
  /** @throws NOT_FOUND, METHOD_NOT_ALLOWED, or INVALID_HTTP for a path that cannot be decoded. */
  match(method: string, path: string): Match
  /** The error shape for a path that no route takes. */
  shapeOf(path: string): ErrorShape
}

type Pattern = { segments: string[]; byMethod: Map<string, Route> }
const NO_PARAMS: Record<string, string> = Object.freeze({})

/** Builds the route table. @throws Error when two routes claim the same method and path. */
export function createRouter(routes: readonly Route[]): Router {
  const fixed = new Map<string, Map<string, Route>>()
  const patterns: Pattern[] = []
  for (const route of routes) add(fixed, patterns, route)

  return {
    match(method, path) {
      const lookupMethod = method === 'HEAD' ? 'GET' : method
      const exact = fixed.get(path)
      if (exact) return { route: pick(exact, lookupMethod, path), params: NO_PARAMS }
      const segments = path.split('/')
      for (const pattern of patterns) {
        const params = matchSegments(pattern.segments, segments)
        if (params) return { route: pick(pattern.byMethod, lookupMethod, path), params }
      }
      throw new GatewayError('NOT_FOUND', `There is nothing at ${path}. GET /openapi.json lists every route.`)
    },
    shapeOf: (path) => (path.startsWith('/api/admin/') ? 'structured' : 'flat'),
  }
}

function add(fixed: Map<string, Map<string, Route>>, patterns: Pattern[], route: Route): void {
  let byMethod: Map<string, Route>
  if (!route.path.includes('{')) {
    byMethod = fixed.get(route.path) ?? new Map()
    fixed.set(route.path, byMethod)
  } else {
    const segments = route.path.split('/')
    let pattern = patterns.find((known) => known.segments.join('/') === route.path)
    if (!pattern) {
      pattern = { segments, byMethod: new Map() }
      patterns.push(pattern)
    }
    byMethod = pattern.byMethod
  }
  if (byMethod.has(route.method)) throw new Error(`two routes claim ${route.method} ${route.path}`)
  byMethod.set(route.method, route)
}

function pick(byMethod: Map<string, Route>, method: string, path: string): Route {
  const found = byMethod.get(method as Method)
  if (found) return found
  const allowed = [...byMethod.keys()].join(', ')
  throw new GatewayError('METHOD_NOT_ALLOWED', `${path} takes ${allowed}, not ${method}.`, { allow: allowed })
}

function matchSegments(pattern: string[], segments: string[]): Record<string, string> | undefined {
  if (pattern.length !== segments.length) return undefined
  let params: Record<string, string> = NO_PARAMS
  for (let at = 0; at < pattern.length; at++) {
    const expected = pattern[at] as string
    const actual = segments[at] as string
    if (expected.startsWith('{')) {
      if (actual === '') return undefined
      params = { ...params, [expected.slice(1, -1)]: decodeSegment(actual) }
    } else if (expected !== actual) return undefined
  }
  return params
}

function decodeSegment(segment: string): string {
  try {
    const decoded = decodeURIComponent(segment)
    if (!decoded.includes('\0')) return decoded
  } catch {
    // A broken escape and a NUL get the same answer.
  }
  throw new GatewayError('INVALID_HTTP', 'The path holds a percent-escape that stands for no character.')
}
