import type { GuardHit } from '../redaction.ts'

/**
 * The response contains text that must not leave. The error has the types and counts of the findings, never the text.
 */
export class OutputBlocked extends Error {
  override name = 'OutputBlocked'
  readonly hits: readonly GuardHit[]
  /** The category of the attack; null for a match of a plain rule. */
  readonly category: string | null

  constructor(hits: readonly GuardHit[], category: string | null = null) {
    super('A guard blocked the answer.')
    this.hits = hits
    this.category = category
  }
}
