import type { Kysely } from 'kysely'

/** How an engine spells the types and clauses of our tables. */
export type MigrationDialect = { engine: 'sqlite' | 'postgres'; text: string; integer: string; tableEnd: string }

/** The statements of one migration. Never edit a released migration: databases that ran it do not run it again. */
export type MigrationStep = (dialect: MigrationDialect) => string[]

/** A migration that moves rows by code, because SQL cannot: between the statements before and after. */
export type MigrationWithData = {
  before: MigrationStep
  move(tx: Kysely<unknown>): Promise<void>
  after: MigrationStep
}
