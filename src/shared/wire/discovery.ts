import { z } from 'zod'
import { NAME_CHARS } from '../spec-limits.ts'
import { BILLING_MODES } from './billing.ts'
import { storableText } from './common.ts'
import { LICENSES } from './users.ts'

/** GET /models */
export const ListModelsQuery = z.object({
  provider: storableText('provider')
    .max(NAME_CHARS, { error: `provider may have at most ${NAME_CHARS} characters` })
    .optional()
    .meta({ description: 'The part of the model id before the slash' }),
})

export const ListModelsResponse = z.object({
  success: z.literal(true),
  models: z.array(
    z.object({
      id: z.string().meta({
        description: 'A value that chat accepts as `model`; `<provider>/*` if any model of the provider is accepted',
      }),
      name: z.string(),
      provider: z.string(),
    }),
  ),
  user_license: z.enum(LICENSES),
  restrictions: z.object({ allowed_models: z.union([z.literal('all'), z.array(z.string())]) }),
  filters: z.object({ provider: z.string().nullable() }),
})

const Counter = z.object({
  used: z.int(),
  limit: z.int().nullable().meta({ description: 'Null: no limit' }),
  remaining: z.int().nullable(),
})

/** GET /usage. Null means "no limit". */
export const UsageResponse = z.object({
  success: z.literal(true),
  points: z.object({
    remaining: z.int().nullable(),
    monthly_limit: z.int().nullable(),
    next_renewal: z.string(),
  }),
  usage_by_model: z.union([
    z.object({ enabled: z.literal(false) }),
    z.object({
      enabled: z.literal(true),
      dollar_limit: z.number().nullable(),
      current_spend: z.number(),
      remaining_budget: z.number().nullable(),
    }),
  ]),
  api_key: z.object({
    name: z.string(),
    billing_mode: z.enum(BILLING_MODES),
    daily: Counter,
    monthly: Counter,
    rate_limit: z.object({
      requests_per_minute: z.int().nullable(),
      requests_per_hour: z.int().nullable(),
    }),
    expires_at: z.string().nullable(),
  }),
})
