import { type Kysely, type RawBuilder, sql } from 'kysely'
import { engineOf } from '../engine.ts'
import type { MigrationWithData } from '../migration-step.ts'
import { usageDays } from './0018-log-summaries.ts'

/**
 * The receipt of a request contains its bill, so the separate table of bills is dropped. Bills without a receipt stay in
 * the sums of usage: bills from before there were receipts, and bills whose receipt was expunged. The log projector adds
 * the bills of all other receipts.
 */
export const oneRecord: MigrationWithData = {
  before: (dialect) => [usageDays(dialect)],
  async move(db) {
    const tx = db.withTables<FormerTables>()
    if ((await tx.selectFrom('usage_records').select('request_id').limit(1).execute()).length === 0) return
    const chains = await tx
      .selectFrom('evidence_entries')
      .select(['tenant_id', 'chain', ({ fn }) => fn.max<number>('seq').as('last')])
      .groupBy(['tenant_id', 'chain'])
      .execute()
    for (const { tenant_id, chain, last } of chains) {
      // PostgreSQL ends statements that run too long, so each statement reads a part of a chain.
      for (let from = 0; from <= last; from += ENTRIES_PER_STATEMENT) {
        const billed = sql`
          select ${requestId(tx)} from evidence_entries
          where tenant_id = ${tenant_id} and chain = ${chain} and seq >= ${from} and seq < ${from + ENTRIES_PER_STATEMENT}
            and payload like '%"cost":{%' and payload like '%"usage":{%'`
        await sql`delete from usage_records where tenant_id = ${tenant_id} and request_id in (${billed})`.execute(tx)
      }
    }
  },
  after: () => [
    `insert into usage_days
      select tenant_id, ${DAY} as day, user_id, api_key_id, served_model, count(*), ${SUMS.map(capped).join(', ')}
      from usage_records
      group by tenant_id, ${DAY}, user_id, api_key_id, served_model`,
    'drop table usage_records',
  ],
}

/** The tables as this migration reads them, regardless of later changes. */
type FormerTables = {
  usage_records: { tenant_id: string; request_id: string }
  evidence_entries: { tenant_id: string; chain: string; seq: number }
}

const ENTRIES_PER_STATEMENT = 10_000

/**
 * The request id in a payload. Payloads are canonical JSON, in which a quote within a text is escaped. Therefore, these
 * texts can only be names of properties. An unreadable payload does not stop the migration.
 */
function requestId(tx: Kysely<FormerTables>): RawBuilder<string> {
  const name = '"request_id":"'
  if (engineOf(tx).name === 'postgres') return sql.raw(`substring(payload from '${name}([^"]*)"')`)
  const rest = `substr(payload, instr(payload, '${name}') + ${name.length})`
  return sql.raw(`substr(${rest}, 1, instr(${rest}, '"') - 1)`)
}

/** A bill belongs to the month in which its request started. Its time is the end of the request. */
const DAY = `case when substr(created_at, 1, 7) = billing_period then substr(created_at, 1, 10)
  else billing_period || case
    when substr(billing_period, 6) in ('04', '06', '09', '11') then '-30'
    when substr(billing_period, 6) = '02' then '-28' else '-31' end
  end`

const SUMS = [
  'input_tokens',
  'output_tokens',
  'cost_nanos',
  `case when billing_mode = 'usage-by-model' then cost_nanos else 0 end`,
  'points',
]

/** A sum up to the largest safe integer: a larger sum could be stored but not read back. */
const capped = (amount: string): string =>
  `cast(case when sum(${amount}) > ${Number.MAX_SAFE_INTEGER} then ${Number.MAX_SAFE_INTEGER} else sum(${amount}) end as bigint)`
