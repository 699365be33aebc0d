import { createHash } from 'node:crypto'
import { toJsonString } from '../../../platform/text/json-string.ts'
import type { Content, Message, ResponseFormat, Tool, ToolChoice } from '../../conversation.ts'
import { type ProviderCall, ProviderError } from '../../provider.ts'
import type { Ability, Profile } from './profiles.ts'
import { toReasoningFields } from './reasoning.ts'

/**
 * The body of POST /chat/completions for a call, as JSON. It is written member by member, because one JSON.stringify
 * for a long text and a few settings takes more than twice as long.
 * @throws ProviderError `bad_request` for options that the server is known to lack, in the caller's terms
 */
export function toOpenAiRequest(call: ProviderCall, profile: Profile): string {
  const { model, system, temperature, temperatureIsDefault, maxTokens, stream, options, noTraining } = call
  refuseWhatLacks(call, profile)
  const messages = toMessages(call.messages, profile).map(toJson)
  if (system !== '') messages.unshift(toJson({ role: profile.systemRole, content: system }))
  let body = `{"model":${toJsonString(model)},"messages":[${messages.join()}]`
  if (maxTokens !== undefined) body += `,"${profile.tokensField}":${maxTokens}`
  const isSent = temperature !== undefined && !(profile.fixedTemperature && temperatureIsDefault)
  if (isSent) body += `,"temperature":${temperature}`
  body += `,"stream":${stream}`
  if (stream && profile.streamOptions) body += ',"stream_options":{"include_usage":true}'
  if (noTraining) body += membersOf(profile.noTrainingFields)
  return `${body}${options ? membersOf(toFields(options, profile)) : ''}}`
}

/** `,"a":1`: the members to append to an object that already has some. */
function membersOf(fields: object): string {
  const json = JSON.stringify(fields)
  return json === '{}' ? '' : `,${json.slice(1, -1)}`
}

function toFields(options: NonNullable<ProviderCall['options']>, profile: Profile): object {
  const lacks = (ability: Ability) => profile.lacks.includes(ability)
  const { reasoningEffort } = options
  const effort = profile.effortField === 'reasoning' ? reasoningEffort && { effort: reasoningEffort } : reasoningEffort
  const hasTools = options.tools !== undefined && options.tools.length > 0
  return {
    // Servers reject tool options without tools.
    ...(hasTools && {
      tools: options.tools?.map(toTool),
      tool_choice: toToolChoice(options.toolChoice),
      parallel_tool_calls: lacks('parallel_tool_calls') ? undefined : options.parallelToolCalls,
    }),
    response_format: toResponseFormat(options.responseFormat),
    stop: options.stop?.length === 0 ? undefined : options.stop,
    top_p: lacks('top_p') ? undefined : options.topP,
    top_k: options.topK,
    frequency_penalty: lacks('penalties') ? undefined : options.frequencyPenalty,
    presence_penalty: lacks('penalties') ? undefined : options.presencePenalty,
    [profile.seedField]: options.seed,
    logprobs: lacks('logprobs') ? undefined : options.logprobs,
    top_logprobs: options.topLogprobs,
    // It does not affect the answer, so it is dropped for servers that do not support it.
    user: profile.refusesUser ? undefined : options.user,
    [profile.effortField]: effort,
  }
}

/** The requested options that a server may lack. Values without an effect do not count. */
function asked({ messages, options = {} }: ProviderCall): Ability[] {
  const asks: Record<Ability, boolean> = {
    tools: (options.tools?.length ?? 0) > 0 || messages.some(isAboutTools),
    tool_choice: options.toolChoice !== undefined && options.toolChoice !== 'auto',
    parallel_tool_calls: options.parallelToolCalls === false,
    json_object: options.responseFormat?.type === 'json_object',
    json_schema: options.responseFormat?.type === 'json_schema',
    images: messages.some(({ content }) => typeof content !== 'string' && content.some(({ type }) => type === 'image')),
    stop: (options.stop?.length ?? 0) > 0,
    top_p: (options.topP ?? 1) !== 1,
    top_k: options.topK !== undefined,
    penalties: (options.frequencyPenalty ?? 0) !== 0 || (options.presencePenalty ?? 0) !== 0,
    seed: options.seed !== undefined,
    logprobs: options.logprobs === true || options.topLogprobs !== undefined,
  }
  return (Object.keys(asks) as Ability[]).filter((ability) => asks[ability])
}

const isAboutTools = (message: Message) =>
  message.role === 'tool' || (message.role === 'assistant' && (message.toolCalls?.length ?? 0) > 0)

function refuseWhatLacks(call: ProviderCall, { lacks, origin }: Profile): void {
  if (lacks.length === 0) return
  const missing = asked(call).filter((ability) => lacks.includes(ability))
  if (missing.length === 0) return
  throw new ProviderError('bad_request', `${origin} does not take ${missing.join(', ')} for this model.`)
}

/** Text-only messages already have the right form. */
function toMessages(messages: readonly Message[], profile: Profile): readonly Turn[] {
  const converted = messages.map((message) => (isPlain(message) ? message : toMessage(message, profile)))
  return profile.alternates ? mergeTurns(converted) : converted
}

/** Nearly every message is a text with one of our own roles. */
function toJson(message: Turn): string {
  const { role, content } = message
  if (typeof content !== 'string' || Object.keys(message).length !== 2) return JSON.stringify(message)
  return `{"role":"${role}","content":${toJsonString(content)}}`
}

const isPlain = (message: Message) =>
  typeof message.content === 'string' &&
  (message.role === 'user' || (message.role === 'assistant' && !message.toolCalls && !message.reasoning))

function toMessage(message: Message, profile: Profile): Turn & Record<string, unknown> {
  const toId = (id: string) => (profile.shortToolIds ? shortId(id) : id)
  const content = toContent(message.content)
  if (message.role === 'user') return { role: 'user', content }
  if (message.role === 'tool') {
    // The API has no field for a failed tool; the text says so.
    return { role: 'tool', tool_call_id: toId(message.toolCallId), content }
  }
  const { toolCalls = [] } = message
  return {
    role: 'assistant',
    content: toolCalls.length > 0 && content.length === 0 ? null : content,
    ...toReasoningFields(message, profile),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map(({ id, name, arguments: text }) => ({
        id: toId(id),
        type: 'function',
        function: { name, arguments: text },
      })),
    }),
  }
}

function toContent(content: Content): string | readonly object[] {
  if (typeof content === 'string') return content
  // Text is sent as a plain string: some servers and chat templates accept no other form without images.
  if (content.every((part) => part.type === 'text')) return content.map(({ text }) => text).join('')
  return content.map((part) =>
    part.type === 'text'
      ? part
      : { type: 'image_url', image_url: { url: `data:${part.mediaType};base64,${part.data}` } },
  )
}

type Turn = { role: string; content?: unknown }

/** Joins neighbouring messages of one role. Only for servers without tools, so messages have only role and content. */
function mergeTurns(messages: readonly Turn[]): Turn[] {
  const merged: Turn[] = []
  for (const message of messages) {
    const last = merged.at(-1)
    if (last?.role !== message.role) merged.push(message)
    else merged[merged.length - 1] = { role: message.role, content: joinContent(last?.content, message.content) }
  }
  return merged
}

function joinContent(first: unknown, second: unknown): unknown {
  if (typeof first === 'string' && typeof second === 'string') return `${first}\n\n${second}`
  const parts = (content: unknown) => (typeof content === 'string' ? [{ type: 'text', text: content }] : content)
  return [parts(first), parts(second)].flat()
}

const NINE = /^[a-zA-Z0-9]{9}$/

/** Converts an id to nine letters and digits, always the same way; an id of that form stays as it is. */
function shortId(id: string): string {
  return NINE.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, 9)
}

const toTool = ({ name, description, parameters, strict }: Tool) => ({
  type: 'function',
  function: { name, description, parameters, strict },
})

const toToolChoice = (choice: ToolChoice | undefined) =>
  typeof choice === 'object' ? { type: 'function', function: choice } : choice

function toResponseFormat(format: ResponseFormat | undefined): object | undefined {
  if (format?.type !== 'json_schema') return format
  const { type, ...schema } = format
  return { type, json_schema: schema }
}
