/** Shows usage and limits of the key. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { UsageResponse } from '../../../shared/wire/discovery.ts'
import type { CliContext } from '../../context.ts'

type Usage = z.infer<typeof UsageResponse>

const VIEW = {
  columns: [
    { path: 'api_key.name', title: 'KEY' },
    { path: 'api_key.expires_at', title: 'EXPIRES' },
    { path: 'api_key.daily.used', title: 'REQUESTS TODAY' },
    { path: 'api_key.daily.limit', title: 'DAILY LIMIT' },
    { path: 'api_key.daily.remaining', title: 'LEFT TODAY' },
    { path: 'api_key.monthly.used', title: 'REQUESTS THIS MONTH' },
    { path: 'api_key.monthly.limit', title: 'MONTHLY LIMIT' },
    { path: 'api_key.monthly.remaining', title: 'LEFT THIS MONTH' },
    { path: 'api_key.rate_limit.requests_per_minute', title: 'LIMIT PER MINUTE' },
    { path: 'api_key.rate_limit.requests_per_hour', title: 'LIMIT PER HOUR' },
    { path: 'points.remaining', title: 'POINTS LEFT' },
    { path: 'points.monthly_limit', title: 'POINTS PER MONTH' },
    { path: 'points.next_renewal', title: 'RENEWED' },
    { path: 'api_key.billing_mode', title: 'BILLING' },
    { path: 'usage_by_model.enabled', title: 'DOLLAR BUDGET' },
    { path: 'usage_by_model.dollar_limit', title: 'BUDGET (USD)' },
    { path: 'usage_by_model.current_spend', title: 'SPENT (USD)' },
    { path: 'usage_by_model.remaining_budget', title: 'BUDGET LEFT (USD)' },
  ],
}

export function toCommand(context: CliContext): Command {
  return new Command('usage')
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
