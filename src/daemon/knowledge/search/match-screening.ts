import { screenShownPassages } from '../../safety/guards/passages.ts'
import type { RulesOfCall } from './rules-of-call.ts'
import type { Match } from './search.ts'

/** Screens the matches that a search shows. Incidents are durable before it returns. */
export async function screenMatches(matches: readonly Match[], { rules, record }: RulesOfCall): Promise<Match[]> {
  // The whole body, though only a part is shown: a value may extend beyond that part.
  const { kept, incidents } = await screenShownPassages(matches, rules)
  await record(incidents)
  return kept
}
