import type { Kysely } from 'kysely'

/** The names of column types and clauses in an engine's SQL. */
export type MigrationDialect = { engine: 'sqlite' | 'postgres'; text: string; integer: string; tableEnd: string }

/**
 * The statements of one migration. Never edit a released migration: databases that have already run it would miss the
 * change.
 */
export type MigrationStep = (dialect: MigrationDialect) => string[]

/**
 * A migration that converts rows in code, if SQL is not sufficient. The conversion runs between two lists of
 * statements.
 */
export type MigrationWithData = {
  before: MigrationStep
  move(tx: Kysely<unknown>): Promise<void>
  after: MigrationStep
}
