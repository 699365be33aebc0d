import { z } from 'zod'
import { PROVIDER_TEXT_CHARS } from '../spec-limits.ts'
import { optional, readOnlyMembers, requestBody, storableText } from './common.ts'

export const PROVIDERS_PATH = '/api/admin/providers'
export const PROVIDER_PATH = '/api/admin/providers/{name}'
export const PROVIDER_TEST_PATH = '/api/admin/providers/{name}/test'

const text = (name: string) =>
  storableText(name)
    .min(1, { error: `${name} must not be empty` })
    .max(PROVIDER_TEXT_CHARS, { error: `${name} may have at most ${PROVIDER_TEXT_CHARS} characters` })

const secret = (name: string) => text(name).meta({ writeOnly: true, description: 'Stored encrypted, and never shown' })

const texts = (name: string) => z.record(text(name), text(name), { error: `${name} must map names to texts` })

/** The settings are those of an entry under `providers` of the configuration file, with the same names. */
const settings = {
  kind: text('kind').meta({ example: 'openai' }),
  base_url: text('base_url').meta({ example: 'https://api.example.com/v1' }),
  api_key: secret('api_key'),
  api_version: text('api_version'),
  api: text('api'),
  region: text('region'),
  headers: texts('headers').meta({ writeOnly: true, description: 'The values are stored encrypted, and never shown' }),
  models: z
    .array(text('models'), { error: 'models must be a list of model names' })
    .meta({ description: 'Names at the provider. Without it, every name is passed on' }),
  proxy: text('proxy').meta({ writeOnly: true, description: 'URL of a proxy, or `none`' }),
  location: text('location').meta({ description: 'Vertex AI: the location of the servers' }),
  project: text('project').meta({ description: 'Vertex AI: the Google Cloud project' }),
  publisher: text('publisher').meta({ description: 'Vertex AI: `google` or `anthropic`' }),
  credentials: z
    .union([secret('credentials'), texts('credentials')], {
      error: 'credentials must be a text, or an object of texts',
    })
    .meta({ writeOnly: true, description: 'Vertex AI: the JSON key of a service account. Bedrock: AWS credentials' }),
  prices: z
    .record(text('prices'), z.record(text('prices'), z.unknown()), {
      error: 'prices must map model names, or *, to prices',
    })
    .meta({ description: 'Dollars per million tokens, by model; see docs/configuration.md' }),
  timeouts: z
    .record(text('timeouts'), texts('timeouts'), { error: 'timeouts must map model names, or *, to time limits' })
    .meta({ description: 'Time limits by model, such as {"*": {"silence": "2m"}}' }),
}

/** The members that may contain a secret. */
export const PROVIDER_SECRETS = ['api_key', 'headers', 'proxy', 'credentials'] as const

const name = text('name').meta({ description: 'The first part of `<provider>/<model>`', example: 'house' })

/** The body of POST /api/admin/providers. */
export const CreateProviderRequest = requestBody('CreateProviderRequest', {
  name,
  kind: optional(settings.kind),
  base_url: optional(settings.base_url),
  api_key: optional(settings.api_key),
  api_version: optional(settings.api_version),
  api: optional(settings.api),
  region: optional(settings.region),
  headers: optional(settings.headers),
  models: optional(settings.models),
  proxy: optional(settings.proxy),
  location: optional(settings.location),
  project: optional(settings.project),
  publisher: optional(settings.publisher),
  credentials: optional(settings.credentials),
  prices: optional(settings.prices),
  timeouts: optional(settings.timeouts),
})

export const PROVIDER_READ_ONLY = [
  'id',
  'name',
  'source',
  'inUse',
  'problem',
  'secrets',
  'createdAt',
  'updatedAt',
] as const

/** The body of PUT …/{name}. Only the members in the body are changed; null removes a member. */
export const UpdateProviderRequest = requestBody('UpdateProviderRequest', {
  kind: settings.kind.nullish(),
  base_url: settings.base_url.nullish(),
  api_key: settings.api_key.nullish(),
  api_version: settings.api_version.nullish(),
  api: settings.api.nullish(),
  region: settings.region.nullish(),
  headers: settings.headers.nullish(),
  models: settings.models.nullish(),
  proxy: settings.proxy.nullish(),
  location: settings.location.nullish(),
  project: settings.project.nullish(),
  publisher: settings.publisher.nullish(),
  credentials: settings.credentials.nullish(),
  prices: settings.prices.nullish(),
  timeouts: settings.timeouts.nullish(),
  ...readOnlyMembers(PROVIDER_READ_ONLY),
})
export type UpdateProviderRequest = z.output<typeof UpdateProviderRequest>

export const Provider = z
  .object({
    id: z.string().meta({ description: 'The name' }),
    name: z.string(),
    source: z.enum(['file', 'store']).meta({
      description: '`file`: the configuration file or an environment variable of this daemon. `store`: this API',
    }),
    inUse: z.boolean().meta({ description: 'False if the file defines the same name, or the settings are unusable' }),
    problem: z.string().nullable().meta({ description: 'Why the provider is not in use' }),
    secrets: z.array(z.string()).meta({ description: 'Which secrets are set; their values are never shown' }),
    kind: z.string().nullable(),
    base_url: z.string().nullable(),
    api_version: z.string().nullable(),
    api: z.string().nullable(),
    region: z.string().nullable(),
    models: z.array(z.string()).nullable(),
    location: z.string().nullable(),
    project: z.string().nullable(),
    publisher: z.string().nullable(),
    prices: z.record(z.string(), z.record(z.string(), z.unknown())).nullable(),
    timeouts: z.record(z.string(), z.record(z.string(), z.string())).nullable(),
    createdAt: z.string().nullable(),
    updatedAt: z.string().nullable(),
  })
  .meta({ id: 'Provider' })
export type Provider = z.output<typeof Provider>

export const ListProvidersResponse = z.object({ success: z.literal(true), providers: z.array(Provider) })
export const ShowProviderResponse = z.object({ success: z.literal(true), provider: Provider })
export const ProviderResponse = z.object({ success: z.literal(true), message: z.string(), provider: Provider })

/** The body of POST …/{name}/test. */
export const TestProviderRequest = requestBody('TestProviderRequest', {
  model: optional(text('model')).meta({ description: 'Its name at the provider. Default: a listed or known model' }),
})

export const TestProviderResponse = z.object({
  success: z.literal(true),
  test: z
    .object({
      provider: z.string(),
      model: z.string(),
      ok: z.boolean(),
      latencyMs: z.int(),
      reason: z.string().nullable().meta({ description: 'Such as `auth_failed`; null if the model answered' }),
      message: z.string(),
    })
    .meta({ id: 'ProviderTest' }),
})
export type ProviderTest = z.output<typeof TestProviderResponse>['test']
