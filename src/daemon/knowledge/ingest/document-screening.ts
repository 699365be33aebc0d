import { hash } from 'node:crypto'
import type { Caller } from '../../platform/http/caller.ts'
import { armForName, armForText } from '../../safety/guards/documents.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import { createPseudonyms } from '../../safety/guards/pseudonyms.ts'
import { type GuardHit, screenText } from '../../safety/guards/redaction.ts'
import type { RulesInForce } from '../../safety/guards/rules-in-force.ts'
import type { RuleIncident } from '../../safety/incidents/incident.ts'
import { blockedBy } from './extract/unreadable.ts'

/** Applies the rules of a training to its documents and counts their hits. */
export type DocumentScreening = {
  /** The rules for the worker thread; undefined when there are none. */
  rules: string | undefined
  /** Differs between rules that would store different texts; empty when the rules change no text. */
  rulesHash: readonly string[]
  /** The stored name of a document, and the reason if a rule blocks it. Counts the hits in the name. */
  name(name: string): { source: string; blocked: string | undefined }
  /** Counts the hits in a text. */
  add(hits: readonly GuardHit[]): void
  /** One incident for each rule with hits so far. */
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
      // Pseudonyms depend on this name alone: a document is found again by its name, whatever the rest of the upload
      // is.
      const pseudonyms = createPseudonyms({ key: pseudonymKey, tenantId, texts: [] })
      const screened = screenText(name, 'text', forName, pseudonyms)
      hits.push(...screened.hits)
      return { source: screened.text, blocked: screened.isBlocked ? blockedBy(screened.hits).message : undefined }
    },
    add: (found) => void hits.push(...found),
    incidents: () => input.incidentsOf(hits, 'input'),
  }
}
