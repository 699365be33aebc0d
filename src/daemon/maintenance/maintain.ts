// Migrates, prunes and vacuums a store.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { BACKUPS_BEFORE_MIGRATION } from '../../shared/spec-limits.ts'
import { isoTime } from '../../shared/time.ts'
import { purgeCache } from '../gateway/cache/answer-cache.ts'
import { purgeExpired } from '../gateway/governed/idempotency.ts'
import { purgeCounters } from '../metering/rate-limits/purge.ts'
import { backUpBeforeMigration } from '../platform/db/backup/migration-backup.ts'
import { withPostgres } from '../platform/db/backup/postgres-backup.ts'
import { removeAbandonedCopies } from '../platform/db/backup/sqlite-backup.ts'
import type { Db } from '../platform/db/db.ts'
import { engineOf } from '../platform/db/engine.ts'
import { migrateDatabase, migrationState } from '../platform/db/migrate.ts'
import { DEFAULT_EVIDENCE } from '../records/config.ts'
import { createRetention } from '../records/evidence/retention.ts'
import { purgeProviderMessages } from '../records/logs/provider-messages.ts'
import { purgeIncidents } from '../safety/incidents/store.ts'
import { purgeWebhooks } from '../webhooks/purge.ts'
import { type DbContext, withStoppedStore } from './context.ts'

/** Migrates the store, after a backup. */
export const migrateStore = (context: DbContext) =>
  withStoppedStore(context, async (db) => {
    const { config, clock } = context
    const { pending: migrated } = await migrationState(db)
    const keep = config.backupsBeforeMigration ?? BACKUPS_BEFORE_MIGRATION.default
    let backup: string | null = null
    const isBackedUp = config.database.kind === 'sqlite' && keep > 0
    await migrateDatabase(db, async ({ applied }) => {
      if (!isBackedUp) return
      backup = await backUpBeforeMigration({ dataDir: config.dataDir, keep, migrations: applied, clock })
    })
    return { migrated, backup }
  })

/** Deletes at once what the daemon deletes in time, and the files that backups and restores have left. */
export const pruneStore = (context: DbContext) =>
  withStoppedStore(context, async (db) => {
    const { config, clock } = context
    const before = await countRows(db)
    const retentionDays = (config.evidence ?? DEFAULT_EVIDENCE).retentionDays
    for (const purge of [purgeExpired, purgeCache, purgeCounters, purgeIncidents, purgeWebhooks])
      await purge({ db, clock })
    await purgeProviderMessages({ db, clock, retentionDays })
    await createRetention({ db, clock, days: retentionDays }).run()
    const files = config.database.kind === 'sqlite' ? await pruneFiles(config.dataDir) : []
    return { deleted_rows: before - (await countRows(db)), deleted_files: files, pruned_at: isoTime(clock.now()) }
  })

/** The stores that were replaced by a restore, and copies of backups that were killed. */
async function pruneFiles(dataDir: string): Promise<string[]> {
  await removeAbandonedCopies(dataDir)
  const replaced = (await readdir(dataDir)).filter((name) => /^replaced-\d{8}T\d+Z$/.test(name)).sort()
  for (const name of replaced) await rm(join(dataDir, name), { recursive: true })
  return replaced
}

const PRUNED = [
  'idempotency_results',
  'cache_entries',
  'rate_counters',
  'incidents',
  'webhook_deliveries',
  'outbox_events',
  'provider_messages',
] as const

async function countRows(db: Db): Promise<number> {
  let rows = 0
  for (const table of PRUNED) {
    const { rows: found } = await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}`.execute(db)
    rows += Number(found[0]?.count ?? 0)
  }
  return rows
}

/** Returns unused pages to the disk, and updates the statistics of the planner. */
export const vacuumStore = (context: DbContext) =>
  withStoppedStore(context, async (db) => {
    const before = await sizeOf(db)
    const { database } = context.config
    // A connection of the pool would end the statement after 30 seconds.
    if (database.kind === 'postgres') await withPostgres(database.url, (client) => client.query('vacuum (analyze)'))
    else await sql`vacuum`.execute(db)
    return { bytes_before: before, bytes: await sizeOf(db) }
  })

/** Returns the size of the store in bytes. */
export async function sizeOf(db: Db): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`${sql.raw(engineOf(db).sizeQuery)}`.execute(db)
  return Number(rows[0]?.bytes ?? 0)
}
