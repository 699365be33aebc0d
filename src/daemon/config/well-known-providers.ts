/** A provider whose address is public knowledge, so that its name and a key are enough. */
export type WellKnownProvider = {
  baseUrl: string
  /** Where its users usually keep the key; undefined when it takes none. */
  keyVariable: string | undefined
  /** Where its users usually name another address for that key. */
  baseUrlVariable?: string
}

/** Every one of these speaks the OpenAI chat interface. */
export const WELL_KNOWN_PROVIDERS: Readonly<Record<string, WellKnownProvider>> = {
  openai: {
    baseUrl: 'https://api.openai.com/v1',
    keyVariable: 'OPENAI_API_KEY',
    // A key that is meant for a proxy must not be shown to anyone else.
    baseUrlVariable: 'OPENAI_BASE_URL',
  },
  mistral: { baseUrl: 'https://api.mistral.ai/v1', keyVariable: 'MISTRAL_API_KEY' },
  groq: { baseUrl: 'https://api.groq.com/openai/v1', keyVariable: 'GROQ_API_KEY' },
  deepseek: { baseUrl: 'https://api.deepseek.com/v1', keyVariable: 'DEEPSEEK_API_KEY' },
  openrouter: { baseUrl: 'https://openrouter.ai/api/v1', keyVariable: 'OPENROUTER_API_KEY' },
  xai: { baseUrl: 'https://api.x.ai/v1', keyVariable: 'XAI_API_KEY' },
  together: { baseUrl: 'https://api.together.xyz/v1', keyVariable: 'TOGETHER_API_KEY' },
  fireworks: { baseUrl: 'https://api.fireworks.ai/inference/v1', keyVariable: 'FIREWORKS_API_KEY' },
  cerebras: { baseUrl: 'https://api.cerebras.ai/v1', keyVariable: 'CEREBRAS_API_KEY' },
  ollama: { baseUrl: 'http://127.0.0.1:11434/v1', keyVariable: undefined },
  vllm: { baseUrl: 'http://127.0.0.1:8000/v1', keyVariable: undefined },
}

/** Interfaces that a provider entry may name one day; today they are refused with a reason. */
export const LATER_KINDS: readonly string[] = ['anthropic', 'google']
