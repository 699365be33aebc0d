import { type Kysely, type Migration, Migrator, sql } from 'kysely'
import type { Db } from './db.ts'
import { engineOf } from './engine.ts'
import type { MigrationDialect, MigrationStep, MigrationWithData } from './migration-step.ts'
import { accounts } from './migrations/0001-accounts.ts'
import { usage } from './migrations/0002-usage.ts'
import { knowledge } from './migrations/0003-knowledge.ts'
import { access } from './migrations/0004-access.ts'
import { billing } from './migrations/0005-billing.ts'
import { idempotencyClaims } from './migrations/0006-idempotency-claims.ts'
import { webhooks } from './migrations/0007-webhooks.ts'
import { knowledgeRanking } from './migrations/0008-knowledge-ranking.ts'
import { ingest } from './migrations/0009-ingest.ts'
import { policies } from './migrations/0010-policies.ts'
import { guardRules } from './migrations/0011-guard-rules.ts'
import { vectors } from './migrations/0012-vectors.ts'
import { incidents } from './migrations/0013-incidents.ts'
import { shieldPolicies } from './migrations/0014-shield-policies.ts'
import { evidence } from './migrations/0015-evidence.ts'
import { oneRecord } from './migrations/0016-one-record.ts'
import { storeProbes } from './migrations/0017-store-probes.ts'
import { logSummaries } from './migrations/0018-log-summaries.ts'
import { providerMessages } from './migrations/0019-provider-messages.ts'
import { clusteredRecords } from './migrations/0020-clustered-records.ts'
import { storedResponses } from './migrations/0021-stored-responses.ts'
import { cacheEntries } from './migrations/0025-cache-entries.ts'
import { policiesEnforced } from './migrations/0026-policies-enforced.ts'
import { evidenceLosses } from './migrations/0027-evidence-losses.ts'
import { evidenceCosignatures } from './migrations/0028-evidence-cosignatures.ts'
import { rights } from './migrations/0029-rights.ts'
import { masterKeyRotation } from './migrations/0030-master-key-rotation.ts'
import { evidenceUnsigned } from './migrations/0031-evidence-unsigned.ts'
import { skeletons } from './migrations/0032-skeletons.ts'
import { reports } from './migrations/0034-reports.ts'
import { storedProviders } from './migrations/0035-stored-providers.ts'
import { fixSqliteStatistics } from './sqlite-statistics.ts'

const STEPS: Record<string, MigrationStep | MigrationWithData> = {
  '0001-accounts': accounts,
  '0002-usage': usage,
  '0003-knowledge': knowledge,
  '0004-access': access,
  '0005-billing': billing,
  '0006-idempotency-claims': idempotencyClaims,
  '0007-webhooks': webhooks,
  '0008-knowledge-ranking': knowledgeRanking,
  '0009-ingest': ingest,
  '0010-policies': policies,
  '0011-guard-rules': guardRules,
  '0012-vectors': vectors,
  '0013-incidents': incidents,
  '0014-shield-policies': shieldPolicies,
  '0015-evidence': evidence,
  '0016-one-record': oneRecord,
  '0017-store-probes': storeProbes,
  '0018-log-summaries': logSummaries,
  '0019-provider-messages': providerMessages,
  '0020-clustered-records': clusteredRecords,
  '0021-stored-responses': storedResponses,
  '0025-cache-entries': cacheEntries,
  '0026-policies-enforced': policiesEnforced,
  '0027-evidence-losses': evidenceLosses,
  '0028-evidence-cosignatures': evidenceCosignatures,
  '0029-rights': rights,
  '0030-master-key-rotation': masterKeyRotation,
  '0031-evidence-unsigned': evidenceUnsigned,
  '0032-skeletons': skeletons,
  '0034-reports': reports,
  '0035-stored-providers': storedProviders,
}

/** The dialect of each engine, for migrations. */
export const DIALECTS: Record<MigrationDialect['engine'], MigrationDialect> = {
  // In a STRICT table, columns reject values of another type, as in PostgreSQL.
  sqlite: { engine: 'sqlite', text: 'text', integer: 'integer', tableEnd: ' strict' },
  // Text is compared by code point on both engines, so the sort order does not depend on the server's locale.
  postgres: { engine: 'postgres', text: 'text collate "C"', integer: 'bigint', tableEnd: '' },
}

/** Thrown if a newer aigwd has migrated the database. Nothing was changed. */
export class NewerSchemaError extends Error {
  override name = 'NewerSchemaError'

  constructor(unknown: readonly string[]) {
    super(
      `The database has migrations that this version of aigwd does not know: ${unknown.join(', ')}. ` +
        'It was upgraded by a newer version. Start that version, or restore a backup from before the upgrade. The database was not changed.',
    )
  }
}

/**
 * Migrates the schema, all or nothing. If several daemons on one PostgreSQL server start at the same time, their
 * migrations run one after the other.
 * @param before called before a store with content is migrated. If it rejects, nothing is migrated.
 * @throws NewerSchemaError, before anything is written, if the database has migrations that this version does not know.
 */
export async function migrateDatabase(db: Db, before?: (state: MigrationState) => Promise<void>): Promise<void> {
  await refuseNewerSchema(db)
  const state = before && (await migrationState(db))
  if (state && state.applied.length > 0 && state.pending.length > 0) await before(state)
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrationsFor(db) } })
  const { error, results = [] } = await migrator.migrateToLatest()
  if (error === undefined) {
    if (results.length > 0 && engineOf(db).name === 'sqlite') await fixSqliteStatistics(db)
    return
  }
  // A newer daemon may have migrated after the first check and before we got the lock.
  await refuseNewerSchema(db)
  throw error
}

/** Whether the database has exactly the migrations of this version. */
export async function isMigrated(db: Db): Promise<boolean> {
  const applied = await appliedMigrations(db)
  return applied.length === Object.keys(STEPS).length && applied.every(isKnown)
}

/** The migrations that a database has, and those of this version that it lacks. */
export type MigrationState = { applied: string[]; pending: string[] }

/** Reads which migrations a database has. */
export async function migrationState(db: Db): Promise<MigrationState> {
  const applied = await appliedMigrations(db)
  return { applied, pending: Object.keys(STEPS).filter((name) => !applied.includes(name)) }
}

/** @throws NewerSchemaError if this version does not know one of these migrations. */
export function requireKnownMigrations(names: readonly string[]): void {
  const unknown = names.filter((name) => !isKnown(name))
  if (unknown.length > 0) throw new NewerSchemaError(unknown)
}

/** Creates the tables in which the migrations that ran are recorded, as the migrator itself would. */
export async function createMigrationTables(tx: Db): Promise<void> {
  await sql`create table kysely_migration (name varchar(255) not null primary key, timestamp varchar(255) not null)`.execute(
    tx,
  )
  await sql`create table kysely_migration_lock (id varchar(255) not null primary key, is_locked integer not null default 0)`.execute(
    tx,
  )
}

/** Runs these migrations inside a transaction of the caller, in order. `record` also records them. */
export async function runMigrations(tx: Db, names: readonly string[], record?: { at: string }): Promise<void> {
  const migrations = migrationsFor(tx)
  for (const name of names) {
    await migrations[name]?.up(tx)
    if (record) await sql`insert into kysely_migration (name, timestamp) values (${name}, ${record.at})`.execute(tx)
  }
}

const isKnown = (name: string): boolean => Object.hasOwn(STEPS, name)

async function refuseNewerSchema(db: Db): Promise<void> {
  requireKnownMigrations(await appliedMigrations(db))
}

async function appliedMigrations(db: Db): Promise<string[]> {
  const catalogue =
    engineOf(db).name === 'sqlite'
      ? sql<{
          found: number
        }>`select count(*) as found from sqlite_schema where type = 'table' and name = 'kysely_migration'`
      : sql<{ found: number }>`select count(*) as found from pg_class where oid = to_regclass('kysely_migration')`
  const { rows: tables } = await catalogue.execute(db)
  if (tables[0]?.found !== 1) return []
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db)
  return rows.map(({ name }) => name)
}

function migrationsFor(db: Db): Record<string, Migration> {
  const dialect = DIALECTS[engineOf(db).name]
  return Object.fromEntries(
    Object.entries(STEPS).map(([name, step]) => [
      name,
      {
        async up(tx: Kysely<unknown>) {
          const run = async (statements: MigrationStep) => {
            for (const statement of statements(dialect)) await sql.raw(statement).execute(tx)
          }
          if (typeof step === 'function') return run(step)
          await run(step.before)
          await step.move(tx)
          await run(step.after)
        },
      },
    ]),
  )
}
