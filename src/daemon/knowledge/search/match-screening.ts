import { createPacer } from '../../platform/pacing.ts'
import { withFileNames } from '../../safety/guards/documents.ts'
import type { GuardHit } from '../../safety/guards/redaction.ts'
import type { RulesOfCall } from './rules-of-call.ts'
import type { Match } from './search.ts'

/**
 * Does what the rules for `output` ask about what a search is going to show, and leaves out a passage that one blocks. What
 * it found is durable before it returns. Without a model there is nobody who would turn pseudonyms back, so `tokenize` masks.
 */
export async function screenMatches(matches: readonly Match[], { rules, record }: RulesOfCall): Promise<Match[]> {
  const { acting, watching, incidentsOf } = rules.output
  const armed = [...acting, ...watching]
  if (armed.length === 0) return [...matches]
  // A document without a title has its name for one.
  const armedFor = { source: armed.map(withFileNames), title: armed.map(withFileNames), body: armed }
  const pacer = createPacer()
  const hits: GuardHit[] = []
  const kept: Match[] = []
  for (const match of matches) {
    const shown = { ...match }
    let isBlocked = false
    // All of the body, though only a part of it is shown: the other may hold the rest of a value.
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
