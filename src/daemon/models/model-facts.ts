import type { ModelFacts } from './config.ts'
import { rowOf } from './output-limits.ts'

const TEXT = { output: ['text'] } as const
const text = (contextTokens: number): ModelFacts => ({ contextTokens, input: ['text'], ...TEXT })
const images = (contextTokens: number): ModelFacts => ({ contextTokens, input: ['text', 'image'], ...TEXT })
const documents = (contextTokens: number): ModelFacts => ({ contextTokens, input: ['text', 'image', 'pdf'], ...TEXT })
const media = (contextTokens: number): ModelFacts => ({
  contextTokens,
  input: ['text', 'image', 'audio', 'video', 'pdf'],
  ...TEXT,
})
const vectors = (contextTokens: number): ModelFacts => ({ contextTokens, input: ['text'], output: ['embedding'] })

/**
 * Facts about well-known models, for the list of models only. Like the output limits, they come from general knowledge,
 * and each name also applies to its editions. `providers.NAME.models` overrides them.
 */
const FACTS: Readonly<Record<string, ModelFacts>> = {
  'gpt-3.5-turbo': text(16_385),
  'gpt-4': text(8_192),
  'gpt-4-32k': text(32_768),
  'gpt-4-turbo': images(128_000),
  'gpt-4o': images(128_000),
  'chatgpt-4o': images(128_000),
  'gpt-4.1': images(1_047_576),
  'gpt-5': images(400_000),
  'gpt-5-chat': images(128_000),
  'gpt-5.1': images(400_000),
  'gpt-5.2': images(400_000),
  o1: images(200_000),
  'o1-mini': text(128_000),
  o3: images(200_000),
  'o3-mini': text(200_000),
  'o4-mini': images(200_000),
  'text-embedding-3': vectors(8_191),
  'text-embedding-ada': vectors(8_191),
  claude: documents(200_000),
  'gemini-2.0': media(1_048_576),
  'gemini-2.5': media(1_048_576),
  'gemini-3': media(1_048_576),
  'gemini-3-pro-preview': media(1_048_576),
  'gemini-embedding': vectors(2_048),
  'deepseek-chat': text(64_000),
  'deepseek-reasoner': text(64_000),
  'llama-3.3': text(128_000),
  'mistral-large': text(128_000),
}

/** Returns the known facts about a model, by the provider's name of the model. */
export const factsOf = (model: string): ModelFacts => rowOf(FACTS, model) ?? {}
