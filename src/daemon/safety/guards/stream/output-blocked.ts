import type { GuardHit } from '../redaction.ts'

/**
 * Thrown if the response contains text that must not be sent. The error contains the types and counts of the findings,
 * never the text.
 */
export class OutputBlocked extends Error {
  override name = 'OutputBlocked'
  readonly hits: readonly GuardHit[]
  /** The category of the attack. Null if a rule, not the prompt shield, blocked the response. */
  readonly category: string | null

  constructor(hits: readonly GuardHit[], category: string | null = null) {
    super('A guard blocked the answer.')
    this.hits = hits
    this.category = category
  }
}
