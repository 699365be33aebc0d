import type { Kysely } from 'kysely'

/** How an engine spells what our tables need. */
export type MigrationDialect = { engine: 'sqlite' | 'postgres'; text: string; integer: string; tableEnd: string }

/** The statements of one migration. Once landed it is never edited: databases that ran it would not run it again. */
export type MigrationStep = (dialect: MigrationDialect) => string[]

/** One that takes rows over in a way that SQL has no words for: between the statements before and those after. */
export type MigrationWithData = {
  before: MigrationStep
  move(tx: Kysely<unknown>): Promise<void>
  after: MigrationStep
}
