import type { EndpointConfig, ProviderKind } from './config.ts'

/** A provider with a public address. To configure it, only its name and a key are needed. */
export type WellKnownProvider = {
  kind: Exclude<EndpointConfig['kind'], 'local'>
  /** The address is undefined if every customer has a separate address. */
  baseUrl: string | undefined
  /**
   * The environment variables that contain the key, highest precedence first. The list is empty if the provider needs
   * no key.
   */
  keyVariables: readonly string[]
  /** The environment variable that overrides the address to which the key is sent. */
  baseUrlVariable?: string
  /** The environment variable that contains the API version. */
  apiVersionVariable?: string
  /** Whether the server runs on the daemon's machine and is discovered there. */
  isLocal?: true
}

const openAiLike = (baseUrl: string, ...keyVariables: string[]): WellKnownProvider => ({
  kind: 'openai',
  baseUrl,
  keyVariables,
})

export const WELL_KNOWN_PROVIDERS: Readonly<Record<string, WellKnownProvider>> = {
  openai: {
    ...openAiLike('https://api.openai.com/v1', 'OPENAI_API_KEY'),
    // A key that belongs to a proxy must not be sent to another server.
    baseUrlVariable: 'OPENAI_BASE_URL',
  },
  anthropic: {
    kind: 'anthropic',
    baseUrl: 'https://api.anthropic.com',
    keyVariables: ['ANTHROPIC_API_KEY'],
    baseUrlVariable: 'ANTHROPIC_BASE_URL',
  },
  google: {
    kind: 'google',
    baseUrl: 'https://generativelanguage.googleapis.com',
    keyVariables: ['GOOGLE_API_KEY', 'GEMINI_API_KEY'],
    baseUrlVariable: 'GOOGLE_GEMINI_BASE_URL',
  },
  azure: {
    kind: 'azure',
    baseUrl: undefined,
    keyVariables: ['AZURE_OPENAI_API_KEY'],
    baseUrlVariable: 'AZURE_OPENAI_ENDPOINT',
    apiVersionVariable: 'OPENAI_API_VERSION',
  },
  mistral: openAiLike('https://api.mistral.ai/v1', 'MISTRAL_API_KEY'),
  groq: openAiLike('https://api.groq.com/openai/v1', 'GROQ_API_KEY'),
  deepseek: openAiLike('https://api.deepseek.com/v1', 'DEEPSEEK_API_KEY'),
  openrouter: openAiLike('https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY'),
  xai: openAiLike('https://api.x.ai/v1', 'XAI_API_KEY'),
  together: openAiLike('https://api.together.xyz/v1', 'TOGETHER_API_KEY'),
  fireworks: openAiLike('https://api.fireworks.ai/inference/v1', 'FIREWORKS_API_KEY'),
  cerebras: openAiLike('https://api.cerebras.ai/v1', 'CEREBRAS_API_KEY'),
  perplexity: openAiLike('https://api.perplexity.ai', 'PERPLEXITY_API_KEY'),
  moonshot: openAiLike('https://api.moonshot.ai/v1', 'MOONSHOT_API_KEY'),
  zai: openAiLike('https://api.z.ai/api/paas/v4', 'ZAI_API_KEY'),
  alibaba: openAiLike('https://dashscope-intl.aliyuncs.com/compatible-mode/v1', 'DASHSCOPE_API_KEY'),
  huggingface: openAiLike('https://router.huggingface.co/v1', 'HF_TOKEN'),
  ollama: { ...openAiLike('http://127.0.0.1:11434/v1'), isLocal: true },
  vllm: { ...openAiLike('http://127.0.0.1:8000/v1'), isLocal: true },
}

/** Provider kinds that need an address and may need a key. */
export const ENDPOINT_KINDS = ['openai', 'azure', 'anthropic', 'google'] as const satisfies EndpointConfig['kind'][]

/** The allowed values of `kind` in a provider entry. */
export const KINDS: readonly ProviderKind[] = [...ENDPOINT_KINDS, 'bedrock']
