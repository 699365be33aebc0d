// Checks a store: the engine's own checks, references between rows, chains of evidence, and bills against receipts.
import { sql } from 'kysely'
import type { Clock } from '../../shared/time.ts'
import type { Db } from '../platform/db/db.ts'
import { engineOf } from '../platform/db/engine.ts'
import { publishedKeys } from '../records/evidence/signing-keys.ts'
import { verifyTenant } from '../records/evidence/verification.ts'
import { reconcile } from '../records/usage/reconcile.ts'

/** One result of a check. `problem` is null if the checked part is in order. */
export type Finding = { check: 'engine' | 'references' | 'chain' | 'bills'; of: string; problem: string | null }

/** Maximum number of problems of the engine in a report. */
const PROBLEMS = 20

/** Checks a store while it is in use. */
export async function checkStore(db: Db, clock: Clock, signal: AbortSignal): Promise<Finding[]> {
  return [...(await checkEngine(db)), ...(await checkChains(db)), ...(await checkBills(db, clock, signal))]
}

/** The integrity check and the references of the engine. */
export async function checkEngine(db: Db): Promise<Finding[]> {
  const ofEngine = engineOf(db).name === 'sqlite' ? await sqliteProblems(db) : await postgresProblems(db)
  const findings: Finding[] = []
  for (const check of ['engine', 'references'] as const) {
    const problems = ofEngine[check].slice(0, PROBLEMS)
    if (problems.length === 0) findings.push({ check, of: 'store', problem: null })
    for (const problem of problems) findings.push({ check, of: 'store', problem })
  }
  return findings
}

type EngineProblems = Record<'engine' | 'references', string[]>

async function sqliteProblems(db: Db): Promise<EngineProblems> {
  const { rows } = await sql<{
    integrity_check: string
  }>`select integrity_check from pragma_integrity_check() limit ${sql.lit(PROBLEMS)}`.execute(db)
  const { rows: keys } = await sql<{ from: string; rowid: number | null; to: string }>`
    select "table" as "from", rowid, parent as "to" from pragma_foreign_key_check() limit ${sql.lit(PROBLEMS)}`.execute(
    db,
  )
  return {
    engine: rows.map((row) => row.integrity_check).filter((text) => text !== 'ok'),
    references: keys.map(({ from, to }) => `a row of ${from} refers to a missing row of ${to}`),
  }
}

/** PostgreSQL checks each reference itself. An index or a rule is invalid if its creation was interrupted. */
async function postgresProblems(db: Db): Promise<EngineProblems> {
  const { rows: indexes } = await sql<{ name: string }>`
    select indexrelid::regclass::text as name from pg_index join pg_class on pg_class.oid = indrelid
    where not indisvalid and relnamespace = current_schema()::regnamespace`.execute(db)
  const { rows: rules } = await sql<{ name: string }>`
    select conname::text as name from pg_constraint
    where not convalidated and connamespace = current_schema()::regnamespace`.execute(db)
  return {
    engine: indexes.map(({ name }) => `the index ${name} is invalid; run REINDEX INDEX ${name}`),
    references: rules.map(({ name }) => `the constraint ${name} was never validated`),
  }
}

/** Verifies each entry, signature and checkpoint of all tenants. */
export async function checkChains(db: Db): Promise<Finding[]> {
  const findings: Finding[] = []
  const keys = await publishedKeys(db)
  for (const tenant of await tenantsOf(db))
    for (const { chain, size, firstBad } of await verifyTenant(db, tenant.id, keys, () => publishedKeys(db))) {
      const problem = firstBad === undefined ? null : `entry ${firstBad.seq}: ${firstBad.problem}`
      findings.push({ check: 'chain', of: `${tenant.name} ${chain} (${size} entries)`, problem })
    }
  return findings
}

/** Compares the sums of each month with the receipts. A month is skipped if its receipts were expunged. */
async function checkBills(db: Db, clock: Clock, signal: AbortSignal): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const tenant of await tenantsOf(db)) {
    const { rows: months } = await sql<{ month: string }>`
      select distinct substr(period, 1, 7) as month from spend_counters
      where tenant_id = ${tenant.id} and holder <> 'budget' order by month`.execute(db)
    for (const { month } of months) {
      const { differences, unreadable } = await reconcile({ db, clock }, { tenantId: tenant.id, month, signal })
      if (unreadable > 0) continue
      const [first] = differences
      const problem =
        first === undefined
          ? null
          : `${differences.length} differences; the first: ${first.source} of ${first.holder} ${first.id}, ${first.field}: ${first.stored} stored, ${first.receipts} in receipts`
      findings.push({ check: 'bills', of: `${tenant.name} ${month}`, problem })
    }
  }
  return findings
}

const tenantsOf = (db: Db) =>
  db.selectFrom('tenants').select(['id', 'name']).orderBy('created_at').orderBy('id').execute()

/** Returns the findings that are problems. */
export const problemsIn = (findings: readonly Finding[]): Finding[] =>
  findings.filter(({ problem }) => problem !== null)
