// Configuration of providers and the prices of their models.
import type { AwsCredentials } from './providers/bedrock/signature.ts'

/** The interface a provider speaks. */
export type ProviderKind = 'openai' | 'azure' | 'anthropic' | 'google' | 'bedrock' | 'local'

export type ProviderConfig = EndpointConfig | BedrockConfig

/** An upstream that is known by its address. */
export type EndpointConfig = {
  /** The prefix of `<provider>/<model>`. */
  name: string
  kind: Exclude<ProviderKind, 'bedrock'>
  baseUrl: string
  apiKey: string | undefined
  headers: Readonly<Record<string, string>>
  /** Offered models by the upstream's own names; undefined = any name is passed on. */
  models: readonly string[] | undefined
  /** Where it works on what it is sent, such as `eu` or `eu-west-1`, for policies with a residency; undefined: not known. */
  region?: string | undefined
  /** Of Azure OpenAI: the date of its interface; undefined for the one that has none. */
  apiVersion?: string | undefined
  /** By the upstream's own names of its models, or `*` for all others; they go before the bundled ones. */
  prices?: Readonly<Record<string, PriceConfig>> | undefined
}

/** Dollars for a million tokens. What is read from or written to a cache costs what input does, unless it says otherwise. */
export type PriceConfig = {
  input: number
  output: number
  cacheRead?: number | undefined
  cacheWrite?: number | undefined
  /** Of an answer; undefined: as the bundled list has it, else one. */
  points?: number | undefined
}

export type BedrockConfig = Pick<EndpointConfig, 'name' | 'apiKey' | 'headers' | 'models' | 'prices'> & {
  kind: 'bedrock'
  /** Of AWS. */
  region: string
  /** Undefined: Amazon's own of the region. */
  baseUrl: string | undefined
  /** Sign the calls where there is no API key. */
  credentials: AwsCredentials | undefined
}
