import type { GuardHit } from '../redaction.ts'

/** The answer holds what must not leave. Nothing of it is in here, only what kind of thing it was and how often. */
export class OutputBlocked extends Error {
  override name = 'OutputBlocked'
  readonly hits: readonly GuardHit[]
  /** Which sort of attack it came of; null when it is just what a rule does not let out. */
  readonly category: string | null

  constructor(hits: readonly GuardHit[], category: string | null = null) {
    super('A guard blocked the answer.')
    this.hits = hits
    this.category = category
  }
}
