import { screenShownPassages } from '../../safety/guards/passages.ts'
import type { RulesOfCall } from './rules-of-call.ts'
import type { Match } from './search.ts'

/** Screens the matches that a search returns. Incidents are stored durably before the matches are returned. */
export async function screenMatches(matches: readonly Match[], { rules, record }: RulesOfCall): Promise<Match[]> {
  // Screen the whole body, not only the excerpt, because a sensitive value may extend beyond the excerpt.
  const { kept, incidents } = await screenShownPassages(matches, rules)
  await record(incidents)
  return kept
}
