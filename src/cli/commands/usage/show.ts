/** Shows the usage and the limits of the key. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { UsageResponse } from '../../../shared/wire/discovery.ts'
import type { CliContext } from '../../context.ts'
import { columns } from '../../output/formats.ts'

type Usage = z.infer<typeof UsageResponse>

const VIEW = {
  columns: columns(
    { KEY: 'api_key.name', EXPIRES: 'api_key.expires_at', 'REQUESTS TODAY': 'api_key.daily.used' },
    { 'DAILY LIMIT': 'api_key.daily.limit', 'LEFT TODAY': 'api_key.daily.remaining' },
    { 'REQUESTS THIS MONTH': 'api_key.monthly.used', 'MONTHLY LIMIT': 'api_key.monthly.limit' },
    { 'LEFT THIS MONTH': 'api_key.monthly.remaining', 'LIMIT PER MINUTE': 'api_key.rate_limit.requests_per_minute' },
    { 'LIMIT PER HOUR': 'api_key.rate_limit.requests_per_hour', 'POINTS LEFT': 'points.remaining' },
    { 'POINTS PER MONTH': 'points.monthly_limit', RENEWED: 'points.next_renewal', BILLING: 'api_key.billing_mode' },
    { 'DOLLAR BUDGET': 'usage_by_model.enabled', 'BUDGET (USD)': 'usage_by_model.dollar_limit' },
    { 'SPENT (USD)': 'usage_by_model.current_spend', 'BUDGET LEFT (USD)': 'usage_by_model.remaining_budget' },
  ),
}

export function toCommand(context: CliContext): Command {
  return new Command('show')
    .description(
      "Show usage and remaining limits of the key; this request is not counted. '-' (null in JSON) means no limit.\n" +
        'Days and months are UTC.',
    )
    .action(() => showUsage(context))
}

/** GET /usage. */
async function showUsage(context: CliContext): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<Usage>({ method: 'GET', path: 'usage' })
  const { points, usage_by_model, api_key } = body
  await output.one({ points, usage_by_model, api_key }, VIEW, raw)
}
