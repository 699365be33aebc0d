import { UNKNOWN_OUTPUT_TOKENS } from '../../../../shared/spec-limits.ts'
import { outputLimitOf } from '../../output-limits.ts'
import type { ProviderCall } from '../../provider.ts'
import { nativeOf, toThinking } from '../anthropic/request.ts'
import { badRequest } from './messages.ts'

/**
 * Returns the model-specific fields of Converse: top-k sampling and thinking. The family is recognised by the model id.
 * Inference profile ids contain the model id as well. Returns undefined if neither option is set.
 * @throws ProviderError `bad_request` if the model does not support an option, or if the option's field is unknown
 */
export function toModelFields({ model, maxTokens, options = {} }: ProviderCall): object | undefined {
  const { topK } = options
  const isClaude = model.includes('anthropic.')
  const native = isClaude ? nativeOf(options)?.thinking : undefined
  if (native) {
    const { config: thinking, effort } = native
    return {
      ...(topK !== undefined && toTopK(model, topK)),
      ...(thinking && { thinking }),
      ...(effort !== undefined && { output_config: { effort } }),
    }
  }
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

/**
 * The efforts that each family accepts unchanged. Nova's `high` is intentionally not listed, because Nova rejects it in
 * combination with `max_tokens`.
 */
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
