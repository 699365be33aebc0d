import type { Match } from '../../knowledge/search/search.ts'
import { withFileNames } from '../../safety/guards/documents.ts'
import type { GuardHit } from '../../safety/guards/redaction.ts'
import type { ShieldScan } from '../../safety/guards/shield/scan.ts'
import type { GuardIncident } from '../../safety/incidents/incident.ts'
import { type ShieldIncident, shieldIncident, worstScan } from '../../safety/prompt-shield/scanner.ts'
import { record, type ScreenDeps, type Screened } from './screen.ts'

/**
 * Screens retrieved passages before a model sees them. Redacts them by the input rules, and drops a passage that a rule
 * blocks or that tries to instruct the model. Incidents are durable before it returns.
 */
export async function screenPassages(
  matches: readonly Match[],
  screened: Screened,
  deps: ScreenDeps,
): Promise<readonly Match[]> {
  const { rules, pseudonyms, origin, scanTerms, evidence } = screened
  const { acting, watching, incidentsOf } = rules.input
  const armed = [...acting, ...watching]
  // A document without a title uses its file name as the title.
  const armedFor = { source: armed.map(withFileNames), title: armed.map(withFileNames), headings: armed, body: armed }
  const hits: GuardHit[] = []
  const kept: Match[] = []
  const { pacer } = scanTerms
  for (const match of matches) {
    const redacted = { ...match }
    let isBlocked = false
    for (const field of FIELDS) {
      const seen = await rules.cleanTexts.screenPaced(match[field], 'text', armedFor[field], pseudonyms, pacer)
      redacted[field] = seen.text
      hits.push(...seen.hits)
      isBlocked ||= seen.isBlocked
    }
    if (!isBlocked) kept.push(redacted)
  }
  const incidents: GuardIncident[] = incidentsOf(hits, 'retrieved')
  const { harmless, attack } = await withoutAttacks(kept, screened, deps)
  if (attack) incidents.push(attack)
  evidence.incidents.push(...incidents)
  await record(incidents, origin, deps)
  return harmless
}

/** The passages that the shield allows, and its worst finding. */
async function withoutAttacks(
  matches: readonly Match[],
  { shield, scanTerms }: Screened,
  { guards }: ScreenDeps,
): Promise<{ harmless: readonly Match[]; attack: ShieldIncident | undefined }> {
  if (!shield?.document.scanRetrieved) return { harmless: matches, attack: undefined }
  const texts = matches.map((match) => ({
    text: FIELDS.map((field) => match[field]).join('\n'),
    source: 'retrieved' as const,
  }))
  const scans = await guards.scanner.scanEach(texts, shield.document, scanTerms)
  const isHeldBack = (scan: ShieldScan | undefined) => {
    const found = shieldIncident(scan, shield, 'retrieved')
    return found?.action === 'block' && found.enforced
  }
  return {
    harmless: matches.filter((_, at) => !isHeldBack(scans[at])),
    attack: shieldIncident(worstScan(scans), shield, 'retrieved'),
  }
}

const FIELDS = ['source', 'title', 'headings', 'body'] as const
