import type { Match } from '../../knowledge/search/search.ts'
import { screenRetrievedPassages } from '../../safety/guards/passages.ts'
import { record, type ScreenDeps, type Screened } from './screen.ts'

/** Screens retrieved passages before a model receives them. Incidents are durable before it returns. */
export async function screenPassages(
  matches: readonly Match[],
  screened: Screened,
  deps: ScreenDeps,
): Promise<readonly Match[]> {
  const { kept, incidents } = await screenRetrievedPassages(matches, screened, deps.guards)
  screened.evidence.incidents.push(...incidents)
  await record(incidents, screened.origin, deps)
  return kept
}
