import { UNKNOWN_OUTPUT_TOKENS } from '../../../../shared/spec-limits.ts'
import { outputLimitOf } from '../../output-limits.ts'
import type { ProviderCall } from '../../provider.ts'
import { toThinking } from '../anthropic/wire.ts'
import { badRequest } from './messages.ts'

/**
 * What Converse leaves to each family of models: how many tokens to choose from, and how much to think. The family is told
 * by the id of the model, also inside an inference profile; undefined where neither is asked for.
 * @throws ProviderError `bad_request` where the model has no word for it, or one that we do not know.
 */
export function toModelFields({ model, maxTokens, options = {} }: ProviderCall): object | undefined {
  const { topK } = options
  const isClaude = model.includes('anthropic.')
  const reasoningEffort = options.noReasoning && isClaude ? 'none' : options.reasoningEffort
  if (topK === undefined && reasoningEffort === undefined) return undefined
  return {
    ...(topK !== undefined && toTopK(model, topK)),
    ...(reasoningEffort !== undefined && toReasoning(model, reasoningEffort, maxTokens)),
  }
}

function toTopK(model: string, topK: number): object {
  if (model.includes('anthropic.')) return { top_k: topK }
  if (model.includes('amazon.nova')) return { inferenceConfig: { topK } }
  throw badRequest('does not support top_k with this model')
}

/** Efforts that the families take as they are. Nova's `high` is not among them: it refuses any `max_tokens` beside it. */
const GPT_OSS_EFFORTS: readonly string[] = ['low', 'medium', 'high']
const NOVA_EFFORTS: readonly string[] = ['low', 'medium']

function toReasoning(model: string, effort: string, asked?: number): object {
  const maxTokens = asked ?? outputLimitOf(model) ?? UNKNOWN_OUTPUT_TOKENS
  if (model.includes('anthropic.')) {
    const { thinking, effort: named } = toThinking(model, effort, maxTokens)
    return { thinking, ...(named !== undefined && { output_config: { effort: named } }) }
  }
  if (model.includes('openai.gpt-oss') && GPT_OSS_EFFORTS.includes(effort)) return { reasoning_effort: effort }
  if (model.includes('amazon.nova-2')) {
    if (effort === 'none') return { reasoningConfig: { type: 'disabled' } }
    if (NOVA_EFFORTS.includes(effort)) return { reasoningConfig: { type: 'enabled', maxReasoningEffort: effort } }
  }
  throw badRequest('does not support this reasoning_effort with this model')
}
