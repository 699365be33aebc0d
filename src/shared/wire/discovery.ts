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

const dollars = (of: string) => z.number().meta({ description: `Dollars per million ${of}` })
const MODALITY = z.string().meta({ example: 'text' })

/** What the lists of models show about a model. A member is absent if its value is unknown. */
export const ModelDetails = z.object({
  context_length: z.int().optional().meta({ description: 'Tokens of the prompt and the answer together' }),
  max_output_tokens: z.int().optional().meta({ description: 'Tokens of an answer' }),
  modalities: z.object({ input: z.array(MODALITY), output: z.array(MODALITY) }).optional(),
  prices: z
    .object({
      input: dollars('input tokens'),
      output: dollars('output tokens'),
      cache_read: dollars('input tokens that are read from a prompt cache'),
      cache_write: dollars('input tokens that are written to a prompt cache'),
      cache_write_1h: dollars('input tokens that are written to a prompt cache for an hour'),
      points: z.int().meta({ description: 'Points of an answer that is billed in points' }),
    })
    .optional(),
})

/** An item of GET /v1/models for Anthropic's clients. */
export const AnthropicModel = z
  .object({
    type: z.literal('model'),
    id: z.string(),
    display_name: z.string(),
    created_at: z.string().meta({ description: 'The time of the last start of the gateway' }),
    max_input_tokens: z.int().optional(),
    max_tokens: z.int().optional(),
    ...ModelDetails.shape,
  })
  .meta({ id: 'AnthropicModel' })
export type AnthropicModel = z.infer<typeof AnthropicModel>

/** GET /v1/models for Anthropic's clients. The list has one page. */
export const AnthropicModels = z
  .object({
    data: z.array(AnthropicModel),
    first_id: z.string().nullable(),
    has_more: z.literal(false),
    last_id: z.string().nullable(),
  })
  .meta({ id: 'AnthropicModels' })
export type AnthropicModels = z.infer<typeof AnthropicModels>

export const ListModelsResponse = z.object({
  success: z.literal(true),
  models: z.array(
    z.object({
      id: z.string().meta({
        description:
          'A value that chat accepts as `model`: a name of the configuration, or a model; `<provider>/*` if any model of the provider is accepted',
      }),
      name: z.string(),
      provider: z.string().meta({ description: '`gateway` for a name of the configuration' }),
      ...ModelDetails.shape,
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
