// Adapts a request to the features of one model.
import {
  EARLIER_AUDIO,
  type GenerationOptions,
  type Message,
  type NativeOptions,
  SPOKEN_ANSWER,
} from '../../models/conversation.ts'
import { CUSTOM_TOOLS, withFunctions } from '../../models/custom-tools.ts'
import { ALLOWED_TOOLS, type ProviderCall, ProviderError, SEVERAL_CHOICES } from '../../models/provider.ts'
import type { Attempt } from '../governed/chain.ts'

type Adapted = Pick<ProviderCall, 'messages' | 'options'>

/**
 * Returns the messages and options that this model receives. Optional tools of another API are left out, and features
 * that the model's API does not have are translated.
 * @throws ProviderError `bad_request` if the request needs a feature that this API does not have
 */
export function adaptedTo({ provider, model }: Attempt, { messages, options }: Adapted): Adapted {
  if (!options) return { messages, options }
  const { native } = options
  if (options.choices !== undefined && !provider.supports?.(SEVERAL_CHOICES, model)) throw lacking([SEVERAL_CHOICES])
  if (native?.required) requireSupported({ provider, model }, native)
  const isForeign = native !== undefined && native.origin !== provider.origin
  const known = isForeign ? withoutOptional(options) : options
  const custom = provider.supports?.(CUSTOM_TOOLS, model) ? known : withFunctions(known)
  return {
    messages: isForeign ? withoutOptionalParts(messages) : messages,
    options: provider.supports?.(ALLOWED_TOOLS, model) ? custom : withAllowedOnly(custom),
  }
}

function requireSupported({ provider, model }: Pick<Attempt, 'provider' | 'model'>, native: NativeOptions): void {
  const { origin, required = [] } = native
  const missing = required.filter((name) =>
    origin === provider.origin ? provider.rejects?.(name, model) : !provider.supports?.(name, model, origin),
  )
  if (missing.length > 0) throw lacking(missing)
}

function lacking(features: readonly string[]): ProviderError {
  const isOfChat = features.every((feature) => OF_CHAT_COMPLETIONS.has(feature))
  const remedy = isOfChat ? ' Use a model of OpenAI or of another provider with the API of chat completions.' : ''
  const message = `The provider does not support ${features.join(', ')}.${remedy}`
  return new ProviderError('bad_request', message, { lacksFeature: true })
}

/** The features that several providers of OpenAI's API have. */
const OF_CHAT_COMPLETIONS: ReadonlySet<string> = new Set([SEVERAL_CHOICES, SPOKEN_ANSWER, EARLIER_AUDIO])

/** Leaves out the optional tools. */
export function withoutOptional(options: GenerationOptions): GenerationOptions {
  const { tools } = options
  if (!tools?.some(({ native }) => native?.isOptional)) return options
  const others = tools.filter(({ native }) => !native?.isOptional)
  return { ...options, tools: others.length > 0 ? others : undefined }
}

/** Leaves out the steps of optional tools in earlier turns. A message that had nothing else is left out too. */
function withoutOptionalParts(messages: readonly Message[]): readonly Message[] {
  return messages.flatMap((message): Message | readonly Message[] => {
    const { content } = message
    if (typeof content === 'string' || !content.some((part) => part.type === 'native' && part.isOptional))
      return message
    const kept = content.filter((part) => !(part.type === 'native' && part.isOptional))
    const isEmpty = kept.length === 0 && !(message.role === 'assistant' && message.toolCalls?.length)
    return isEmpty ? [] : { ...message, content: kept }
  })
}

/** A model whose API has no list of allowed tools is offered only the allowed tools. */
function withAllowedOnly(options: GenerationOptions): GenerationOptions {
  if (!options.allowedTools) return options
  const { allowedTools, tools, ...others } = options
  return { ...others, tools: tools?.filter(({ name }) => allowedTools.includes(name)) }
}
