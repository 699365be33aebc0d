// The report of usage and cost by any groups, from the sums of usage by day.
import { type RawBuilder, sql } from 'kysely'
import type { CostReportRow, ReportGroup } from '../../../shared/wire/usage.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { toDecimalDollars } from './decimal-dollars.ts'

/** Maximum number of rows of a report. */
export const REPORT_ROWS = 10_000

export type CostReportOptions = {
  /** Undefined: all tenants. */
  tenantId: string | undefined
  by: readonly ReportGroup[]
  /** UTC days, both inclusive. */
  since: string
  until: string
}

type Sums = Record<'requests' | 'input_tokens' | 'output_tokens' | 'points' | 'billed_nanos' | 'nanos', string>
type Row = Sums & Partial<Record<ReportGroup, string>>

/** Sums the billed requests of a period. Returns one row for each combination of the groups, in their order. */
export async function costReport(
  db: Db,
  { tenantId, by, since, until }: CostReportOptions,
): Promise<{ rows: CostReportRow[]; truncated: boolean }> {
  const groups = by.map((group) => ({ group, expression: columnOf(db, group) }))
  const selected = groups.map(({ group, expression }) => sql`${expression} as ${sql.id(group)}`)
  const grouped = groups.map(({ expression }) => expression)
  const ofTenant = tenantId === undefined ? sql`` : sql`and tenant_id = ${tenantId}`
  // Sums leave the database as text, because they may exceed the safe integers of JavaScript.
  const { rows } = await sql<Row>`
    select ${sql.join([...selected, ...AMOUNTS.map(sumOf)])} from usage_days
    where day >= ${since} and day <= ${until} ${ofTenant}
    group by ${sql.join(grouped)} order by ${sql.join(grouped)} limit ${REPORT_ROWS + 1}`.execute(db)
  const shown = rows.slice(0, REPORT_ROWS)
  const names = {
    tenant: by.includes('tenant') ? await namesIn(db, 'tenants', idsOf(shown, 'tenant')) : NO_NAMES,
    user: by.includes('user') ? await namesIn(db, 'users', idsOf(shown, 'user')) : NO_NAMES,
    key: by.includes('key') ? await namesIn(db, 'api_keys', idsOf(shown, 'key')) : NO_NAMES,
  }
  return { rows: shown.map((row) => toReportRow(row, names)), truncated: rows.length > REPORT_ROWS }
}

const AMOUNTS = ['requests', 'input_tokens', 'output_tokens', 'points', 'billed_nanos', 'nanos'] as const
const sumOf = (amount: (typeof AMOUNTS)[number]) => sql`cast(sum(${sql.ref(amount)}) as text) as ${sql.id(amount)}`

/** The models are stored as `<provider>/<model>`. */
function columnOf(db: Db, group: ReportGroup): RawBuilder<unknown> {
  switch (group) {
    case 'tenant':
      return sql.ref('tenant_id')
    case 'user':
      return sql.ref('user_id')
    case 'key':
      return sql.ref('api_key_id')
    case 'provider':
      return engineOf(db).name === 'postgres'
        ? sql`split_part(model, '/', 1)`
        : sql`substr(model, 1, instr(model || '/', '/') - 1)`
    default:
      return sql.ref(group)
  }
}

type NameTable = 'tenants' | 'users' | 'api_keys'
type Names = ReadonlyMap<string, string>
const NO_NAMES: Names = new Map()

const idsOf = (rows: readonly Row[], group: ReportGroup): string[] => [...new Set(rows.map((row) => row[group] ?? ''))]

/** The ids come from rows that the caller may read, and an id belongs to one tenant only. */
async function namesIn(db: Db, table: NameTable, ids: readonly string[]): Promise<Names> {
  if (ids.length === 0) return NO_NAMES
  const { rows } = await sql<{ id: string; name: string }>`
    select id, name from ${sql.table(table)} where id in (${sql.join(ids)})`.execute(db)
  return new Map(rows.map(({ id, name }) => [id, name]))
}

function toReportRow(row: Row, names: Record<'tenant' | 'user' | 'key', Names>): CostReportRow {
  const { day, tenant, user, key, provider, model, tag } = row
  return {
    ...(day !== undefined && { day }),
    ...(tenant !== undefined && { tenantId: tenant, tenantName: names.tenant.get(tenant) ?? null }),
    ...(user !== undefined && { userId: user, userName: names.user.get(user) ?? null }),
    ...(key !== undefined && { apiKeyId: key, apiKeyName: names.key.get(key) ?? null }),
    ...(provider !== undefined && { provider }),
    ...(model !== undefined && { model }),
    ...(tag !== undefined && { tag }),
    requests: Number(row.requests),
    inputTokens: Number(row.input_tokens),
    outputTokens: Number(row.output_tokens),
    points: Number(row.points),
    dollars: toDecimalDollars(BigInt(row.billed_nanos)),
    listPrice: toDecimalDollars(BigInt(row.nanos)),
  }
}
