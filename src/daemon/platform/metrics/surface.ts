import type { Route } from '../http/route.ts'

/** The interfaces of the gateway, by the beginning of their paths. The first match applies. */
const SURFACES = [
  ['/api/external/v1beta/', 'gemini'],
  ['/api/external/v1/messages', 'anthropic'],
  ['/api/external/v1/', 'openai'],
] as const

/** Returns the label `surface` of a route: one of the interfaces for models, `management`, `public` or `other`. */
export function surfaceOf(route: Pick<Route, 'path' | 'access' | 'callsModels'> | undefined): string {
  if (!route) return 'other'
  const found = SURFACES.find(([prefix]) => route.path.startsWith(prefix))
  if (found) return found[1]
  if (route.callsModels) return 'native'
  return route.access === 'none' ? 'public' : 'management'
}
