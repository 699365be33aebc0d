import type { MigrationStep } from '../migration-step.ts'
import { usageDays } from './0018-log-summaries.ts'

/**
 * The receipt of a request contains its bill, so the separate table of bills is dropped. Bills without a receipt stay in
 * the sums of usage: bills from before there were receipts, and bills whose receipt was expunged. The log projector adds
 * the bills of all other receipts.
 */
export const oneRecord: MigrationStep = (dialect) => [
  usageDays(dialect),
  // Payloads are canonical JSON, in which a quote within a text is escaped. Therefore, these texts can only be names of
  // properties. An unreadable payload does not stop the migration.
  `insert into usage_days
    with billed as (
      select tenant_id, ${requestIdIn('payload', dialect)} as request_id from evidence_entries
      where payload like '%"cost":{%' and payload like '%"usage":{%'
    )
    select bill.tenant_id, ${DAY} as day, user_id, api_key_id, served_model, count(*), ${SUMS.map(capped).join(', ')}
    from usage_records as bill
    left join billed on billed.tenant_id = bill.tenant_id and billed.request_id = bill.request_id
    where billed.request_id is null
    group by bill.tenant_id, ${DAY}, user_id, api_key_id, served_model`,
  'drop table usage_records',
]

/** The text of the property `request_id`. */
function requestIdIn(column: string, { engine }: Parameters<MigrationStep>[0]): string {
  const name = '"request_id":"'
  if (engine === 'postgres') return `substring(${column} from '${name}([^"]*)"')`
  const rest = `substr(${column}, instr(${column}, '${name}') + ${name.length})`
  return `substr(${rest}, 1, instr(${rest}, '"') - 1)`
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
