import { hash } from 'node:crypto'
import type { Caller } from '../../platform/http/caller.ts'
import { armForName, armForText } from '../../safety/guards/documents.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import { createPseudonyms } from '../../safety/guards/pseudonyms.ts'
import { type GuardHit, screenText } from '../../safety/guards/redaction.ts'
import type { RulesInForce } from '../../safety/guards/rules-in-force.ts'
import type { RuleIncident } from '../../safety/incidents/incident.ts'
import { blockedBy } from './extract/unreadable.ts'

/** What the rules of a training do about its documents, and what they have found in them. */
export type DocumentScreening = {
  /** For the thread that reads them; undefined when there are none. */
  rules: string | undefined
  /** What tells these rules from others that would store other texts; empty when these would store every text as it is. */
  rulesHash: readonly string[]
  /** What a document of this name is called, and why it must not be there if it must not. Counts what it finds. */
  name(name: string): { source: string; blocked: string | undefined }
  /** Counts what was found in a text. */
  add(hits: readonly GuardHit[]): void
  /** One for each rule that found something until now. */
  incidents(): RuleIncident[]
}

/** @param pseudonymKey of `Guards` */
export function createDocumentScreening(
  { input, sources }: RulesInForce,
  { tenantId }: Pick<Caller, 'tenantId'>,
  { pseudonymKey }: Pick<Guards, 'pseudonymKey'>,
): DocumentScreening {
  const forText = armForText(input)
  const forName = armForName(input)
  const said = forText.length > 0 ? JSON.stringify(sources) : undefined
  const changesText = forText.some(({ actionOf }) => actionOf('') !== 'log')
  const hits: GuardHit[] = []
  return {
    rules: said,
    rulesHash: said !== undefined && changesText ? [hash('sha256', said)] : [],
    name(name) {
      // Those of this name alone: a document is found again by its name, whatever others it is sent with.
      const pseudonyms = createPseudonyms({ key: pseudonymKey, tenantId, texts: [] })
      const screened = screenText(name, 'text', forName, pseudonyms)
      hits.push(...screened.hits)
      return { source: screened.text, blocked: screened.isBlocked ? blockedBy(screened.hits).message : undefined }
    },
    add: (found) => void hits.push(...found),
    incidents: () => input.incidentsOf(hits, 'input'),
  }
}
