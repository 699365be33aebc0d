// Configuration of providers and the prices of their models.
import type { FailureReason } from './provider.ts'

/** The API that a provider implements. */
export type ProviderKind = 'openai' | 'azure' | 'anthropic' | 'google' | 'cohere' | 'bedrock' | 'vertex' | 'local'

export type ProviderConfig = EndpointConfig | BedrockConfig | VertexConfig

/** A name of the configuration that stands for models. */
export type ModelName = { name: string; targets: readonly NamedTarget[] }

export type NamedTarget = {
  /** `<provider>/<model>` */
  modelId: string
  /** The share of the requests among the targets with the same priority. */
  weight: number
  /** Targets with a higher number are called only if the targets with lower numbers fail. */
  priority: number
}

export const MODALITIES = ['text', 'image', 'audio', 'video', 'pdf', 'embedding'] as const
export type Modality = (typeof MODALITIES)[number]

/** What the list of models shows about a model. */
export type ModelFacts = {
  contextTokens?: number | undefined
  input?: readonly Modality[] | undefined
  output?: readonly Modality[] | undefined
}

/** An upstream with a configured address. */
export type EndpointConfig = {
  /** The prefix of `<provider>/<model>`. */
  name: string
  kind: Exclude<ProviderKind, 'bedrock' | 'vertex'>
  baseUrl: string
  apiKey: string | undefined
  /** Set if the provider has several keys; `apiKey` is then the first of them. */
  apiKeys?: readonly { key: string; weight: number }[] | undefined
  headers: Readonly<Record<string, string>>
  /** The offered models, by their names at the upstream. Undefined: the provider accepts any name. */
  models: readonly string[] | undefined
  /** Facts about offered models, by their names at the upstream. Override the built-in ones. */
  facts?: Readonly<Record<string, ModelFacts>> | undefined
  /**
   * The region where data is processed, such as `eu` or `eu-west-1`. Policies with a residency requirement check this
   * region. Undefined: unknown.
   */
  region?: string | undefined
  /** OpenAI's and Azure's kinds only: the API that chats use. Undefined: `chat`, which is chat completions. */
  api?: 'chat' | 'responses' | undefined
  /** Azure OpenAI only: the dated API version. Undefined: the undated API. */
  apiVersion?: string | undefined
  /**
   * The URL of the proxy for all calls, or null for direct calls. Undefined: the proxy from the environment variables.
   */
  proxy?: string | null | undefined
  /** Certificate authorities in PEM, which replace the system's list. */
  ca?: string | undefined
  /** Time limits by the upstream's model name. `*` applies to all other models. */
  timeouts?: Readonly<Record<string, ModelTimeouts>> | undefined
  /** Prices by the upstream's model name. `*` applies to all other models. Overrides the bundled prices. */
  prices?: Readonly<Record<string, PriceConfig>> | undefined
}

/** Time limits of an attempt in milliseconds. Limits that are not set are those of `*`, or of all providers. */
export type ModelTimeouts = { firstTokenMs?: number; attemptMs?: number; silenceMs?: number }

/**
 * Dollars per million tokens. Cache reads and writes cost the same as input by default. Cache writes for an hour cost the
 * same as other cache writes by default.
 */
export type TierPriceConfig = {
  input: number
  output: number
  cacheRead?: number | undefined
  cacheWrite?: number | undefined
  cacheWriteHour?: number | undefined
}

/** The prices of a model. */
export type PriceConfig = TierPriceConfig & {
  /** Prices by tier of service. */
  tiers?: Readonly<Record<string, TierPriceConfig>> | undefined
  /** Dollars per thousand web searches. Default: the bundled price list. */
  webSearch?: number | undefined
  /** Tokens of audio in input and output. */
  audio?: readonly [input: number, output: number] | undefined
  /** Points per answer. Default: the points in the bundled price list, or 1. */
  points?: number | undefined
}

export type BedrockConfig = Pick<
  EndpointConfig,
  'name' | 'apiKey' | 'headers' | 'models' | 'facts' | 'proxy' | 'ca' | 'prices' | 'timeouts'
> & {
  kind: 'bedrock'
  /** AWS region. */
  region: string
  /** Undefined: Amazon's endpoint for the region. */
  baseUrl: string | undefined
  /** Used to sign calls if there is no API key. */
  credentials: AwsCredentials | undefined
}

export type AwsCredentials = { accessKeyId: string; secretAccessKey: string; sessionToken?: string | undefined }

export const VERTEX_PUBLISHERS = ['google', 'anthropic'] as const

export type VertexConfig = Pick<
  EndpointConfig,
  'name' | 'headers' | 'models' | 'facts' | 'region' | 'proxy' | 'ca' | 'prices' | 'timeouts'
> & {
  kind: 'vertex'
  /** Whose models the provider has. Each publisher has an API of its own. */
  publisher: (typeof VERTEX_PUBLISHERS)[number]
  /** The Google Cloud project. */
  project: string
  /** The location whose servers are called, such as `europe-west4`, `eu` or `global`. */
  location: string
  /** Undefined: Google's address for the location. */
  baseUrl: string | undefined
  /** Undefined: the server at `baseUrl` needs no credentials, or `headers` contain them. */
  credentials: GoogleCredentials | undefined
  apiKey?: undefined
}

/** The key of a Google service account. */
export type GoogleCredentials = {
  clientEmail: string
  /** PEM */
  privateKey: string
  privateKeyId: string | undefined
  /** The address at which an assertion is exchanged for an access token. */
  tokenUrl: string
}

export const SCRIPT_FINISHES = ['stop', 'tool_calls', 'length', 'content_filter'] as const
export const SCRIPT_FAILURES = [
  'timeout',
  'rate_limit',
  'server_error',
  'connection_error',
  'auth_failed',
  'model_not_found',
  'quota_exhausted',
  'bad_request',
  'context_length',
  'content_filter',
] as const satisfies readonly FailureReason[]

/** One step of a scripted model. */
export type ScriptStep =
  /** Milliseconds without output. */
  | { wait: number }
  | { text: string }
  | { reasoning: string }
  /** Skipped if the request offers no tools, because real models call only tools that the request offers. */
  | { tool_call: { name: string; arguments: string } }
  /** Token counts that override the gateway's own count. */
  | { usage: { input: number; output: number } }
  | { finish: (typeof SCRIPT_FINISHES)[number] }
  | { fail: (typeof SCRIPT_FAILURES)[number]; retry_after?: number | undefined }
  /** The connection breaks. */
  | { break: true }
  /** Sends no further output until a timeout expires or the client disconnects. */
  | { stall: true }

/** Scripts by name. */
export type Scripts = Readonly<Record<string, readonly ScriptStep[]>>
