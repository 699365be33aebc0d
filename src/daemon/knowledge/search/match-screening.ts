import { createPacer } from '../../platform/pacing.ts'
import { withFileNames } from '../../safety/guards/documents.ts'
import type { GuardHit } from '../../safety/guards/redaction.ts'
import type { RulesOfCall } from './rules-of-call.ts'
import type { Match } from './search.ts'

/**
 * Applies the `output` rules to the matches that a search shows, and removes a passage that a rule blocks. Incidents
 * are durable before it returns. A search has no model response in which to reverse pseudonyms, so `tokenize` masks.
 */
export async function screenMatches(matches: readonly Match[], { rules, record }: RulesOfCall): Promise<Match[]> {
  const { acting, watching, incidentsOf } = rules.output
  const armed = [...acting, ...watching]
  if (armed.length === 0) return [...matches]
  // A document without a title shows its name.
  const armedFor = { source: armed.map(withFileNames), title: armed.map(withFileNames), body: armed }
  const pacer = createPacer()
  const hits: GuardHit[] = []
  const kept: Match[] = []
  for (const match of matches) {
    const shown = { ...match }
    let isBlocked = false
    // Screen the whole body, though only a part is shown: a match may extend beyond that part.
    for (const field of SHOWN) {
      const screened = await rules.cleanTexts.screenPaced(match[field], 'text', armedFor[field], undefined, pacer)
      shown[field] = screened.text
      hits.push(...screened.hits)
      isBlocked ||= screened.isBlocked
    }
    if (!isBlocked) kept.push(shown)
  }
  await record(incidentsOf(hits, 'output'))
  return kept
}

const SHOWN = ['source', 'title', 'body'] as const
