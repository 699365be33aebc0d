import { type GenerationOptions, type ResponseFormat, systemText, type Tool } from '../../conversation.ts'
import type { ProviderCall } from '../../provider.ts'
import { badRequest, toCohereMessages } from './messages.ts'
import { THINKS } from './supported.ts'

/**
 * Returns the body of POST /v2/chat for a call. The end user's name is not sent, because the API has no field for it.
 * @throws ProviderError `bad_request` for options that the API does not support
 */
export function toCohereRequest(call: ProviderCall): object {
  const { model, system, messages, temperature, maxTokens, stream, options = {} } = call
  refuseUnknown(options)
  const prompt = systemText(system)
  return {
    model,
    messages: [...(prompt === '' ? [] : [{ role: 'system', content: prompt }]), ...toCohereMessages(messages)],
    stream,
    temperature,
    max_tokens: maxTokens,
    p: options.topP,
    k: options.topK,
    stop_sequences: options.stop?.length ? options.stop : undefined,
    seed: options.seed,
    frequency_penalty: options.frequencyPenalty,
    presence_penalty: options.presencePenalty,
    ...toTools(options),
    response_format: toResponseFormat(options.responseFormat),
    thinking: toThinking(options, model),
  }
}

/** Cohere's log probabilities have another form, in which texts of several tokens have one entry. */
function refuseUnknown({ logprobs, topLogprobs }: GenerationOptions): void {
  const asked = {
    logprobs: logprobs === true,
    top_logprobs: Boolean(topLogprobs),
  }
  const unknown = Object.entries(asked).flatMap(([name, isAsked]) => (isAsked ? [name] : []))
  if (unknown.length > 0) throw badRequest(`does not support ${unknown.join(', ')}`)
}

/** The API cannot force a tool by its name, so a forced tool is the only tool that is offered. */
function toTools({ tools = [], toolChoice }: GenerationOptions): object {
  const forced = typeof toolChoice === 'object' ? toolChoice.name : undefined
  const offered = forced === undefined ? tools : tools.filter(({ name }) => name === forced)
  const isForced = forced !== undefined || toolChoice === 'required'
  if (offered.length === 0) {
    if (isForced) throw badRequest('cannot apply tool_choice without the tool')
    return {}
  }
  return {
    tools: offered.map(toTool),
    // Strictness applies to all tools.
    strict_tools: offered.every(({ strict }) => strict) ? true : undefined,
    tool_choice: isForced ? 'REQUIRED' : toolChoice === 'none' ? 'NONE' : undefined,
  }
}

function toTool({ name, description, parameters, native }: Tool): object {
  if (native) throw badRequest(`does not support tools of type ${native.definition.type}`)
  return { type: 'function', function: { name, description, parameters: { type: 'object', ...parameters } } }
}

/** The API has no field for the name of a schema, and expects its description inside the schema. */
function toResponseFormat(format: ResponseFormat | undefined): object | undefined {
  if (format?.type !== 'json_schema') return format
  const { description, schema } = format
  return { type: 'json_object', json_schema: description === undefined ? schema : { description, ...schema } }
}

/** The API has no degrees of effort. */
function toThinking({ reasoningEffort, noReasoning }: GenerationOptions, model: string): object | undefined {
  if (reasoningEffort === 'none') return { type: 'disabled' }
  if (reasoningEffort === 'high') return { type: 'enabled' }
  if (reasoningEffort !== undefined) throw badRequest('accepts as reasoning_effort only none and high')
  return noReasoning && THINKS.test(model) ? { type: 'disabled' } : undefined
}
