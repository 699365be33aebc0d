import type { UsageByModel } from '../../../shared/wire/billing.ts'
import { toDollars, toNanosLimit } from '../../metering/usage/money.ts'
import type { UserRow } from './store.ts'

type Columns = Pick<UserRow, 'usage_by_model' | 'dollar_limit_nanos'>

/** Returns the user's dollar budget in the wire format. */
export const toUsageByModel = ({ usage_by_model, dollar_limit_nanos }: Columns): UsageByModel => ({
  enabled: usage_by_model === 1,
  dollarLimit: dollar_limit_nanos === null ? null : toDollars(dollar_limit_nanos),
})

/** Returns the budget columns with the requested changes applied. */
export function changedUsageByModel(
  columns: Columns,
  { enabled, dollarLimit }: { enabled?: boolean | undefined; dollarLimit?: number | null | undefined } = {},
): Columns {
  return {
    usage_by_model: enabled === undefined ? columns.usage_by_model : Number(enabled),
    dollar_limit_nanos: dollarLimit === undefined ? columns.dollar_limit_nanos : toNanosLimit(dollarLimit),
  }
}

/** The default of a new user: no billing in dollars. */
export const NO_USAGE_BY_MODEL: Columns = { usage_by_model: 0, dollar_limit_nanos: null }
