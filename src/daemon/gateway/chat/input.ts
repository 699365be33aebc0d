import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { suggestion } from '../../../shared/nearest-name.ts'
import {
  MAX_TOKENS_DEFAULT,
  MAX_TOKENS_LIMIT,
  MESSAGE_CONTENT_BYTES,
  TEMPERATURE_DEFAULT,
  TEMPERATURE_LIMIT,
} from '../../../shared/spec-limits.ts'
import { type Change, ChatRequest, type Dropped } from '../../../shared/wire/chat.ts'
import { type KeyRequestLimits, NO_REQUEST_LIMITS } from '../../../shared/wire/keys.ts'
import { type GenerationOptions, systemText, textOf } from '../../models/conversation.ts'
import type { ModelNames } from '../../models/names.ts'
import type { GovernedInput } from '../governed/input.ts'

/** The system prompt and the messages of a request. */
export type Conversation = GovernedInput['conversation']

/** A well-formed chat request of any surface, with that surface's defaults applied. It is not admitted yet. */
export type ChatInput = GovernedInput & {
  useRag: boolean
  /** Undefined: the model's own default. */
  temperature: number | undefined
  /** True if the request has no temperature, so the gateway set one. */
  temperatureIsDefault?: boolean
  /** Undefined: the request sets no limit. */
  maxTokens: number | undefined
  /** Values outside of the fixed bounds of the endpoint, and the values that are used instead. */
  changed?: readonly Change[]
  /** Fields that are not sent, because the operator forbids them or the gateway does not support them. */
  dropped?: readonly Dropped[]
  /** The names of these fields in the request, if they are not `max_tokens`, `reasoning_effort` and `user`. */
  fields?: { maxTokens?: string; thinking?: string; user?: string }
}

/**
 * Converts a body of POST /chat/completions to the pipeline's input. Checks only the rules that span several fields,
 * because the schema already validates each field. Values outside of the contract's bounds are clamped.
 * @param key the key's limits, which lower the default limit of the answer
 * @throws INDEX_REQUIRED, MODEL_REQUIRED, VALIDATION_ERROR
 */
export function toChatInput(request: ChatRequest, key: KeyRequestLimits = NO_REQUEST_LIMITS): ChatInput {
  const conversation = toConversation(request)
  const temperature = clampedTo(TEMPERATURE_BOUNDS, request.temperature)
  const maxTokens = clampedTo(TOKEN_BOUNDS, request.max_tokens)
  return {
    conversation,
    chain: request,
    // The API contract requires `<provider>/<model>`. Only names of the configuration are accepted in addition.
    isExact: true,
    index: request.index as string,
    useRag: request.use_rag ?? true,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: request.conversation_id,
    temperature: temperature ?? TEMPERATURE_DEFAULT,
    temperatureIsDefault: request.temperature === undefined,
    maxTokens: maxTokens ?? Math.min(MAX_TOKENS_DEFAULT, key.maxTokens ?? Infinity, key.defaultMaxTokens ?? Infinity),
    stream: request.stream ?? false,
    options: undefined,
    changed: [
      ...changeOf('temperature', request.temperature, temperature),
      ...changeOf('max_tokens', request.max_tokens, maxTokens),
    ],
    dropped: unknownIn(request),
  }
}

const TEMPERATURE_BOUNDS = { min: 0, max: TEMPERATURE_LIMIT }
const TOKEN_BOUNDS = { min: 1, max: MAX_TOKENS_LIMIT }

const clampedTo = ({ min, max }: { min: number; max: number }, value: number | undefined): number | undefined =>
  value === undefined ? undefined : Math.min(max, Math.max(min, value))

const changeOf = (field: string, asked: number | undefined, used: number | undefined): readonly Change[] =>
  asked === undefined || used === undefined || asked === used ? NONE : [{ field, asked, used, why: 'gateway' }]

const NONE: readonly never[] = []
const MEMBER_NAMES = Object.keys(ChatRequest.shape)
const MEMBERS: ReadonlySet<string> = new Set(MEMBER_NAMES)
const SHOWN = { members: 50, chars: 100 } as const
/** More unknown members than these are no request of another interface. Each of them is compared with the known names. */
const UNKNOWN_MEMBERS = 1_000
/** A longer name has more slips than `suggestion` accepts. */
const SLIP_CHARS = 2 * Math.max(...MEMBER_NAMES.map((name) => name.length))

/** Other names of the members that decide under which rules a request runs, in lower case and without separators. */
const ALIASES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    smltp_policy: [
      'policy',
      'policies',
      'policyid',
      'policyname',
      'smltp',
      'smltpid',
      'smltppolicyid',
      'securitypolicy',
    ],
    prompt_shield: [
      'shield',
      'shieldpolicy',
      'shieldpolicyid',
      'promptshieldpolicy',
      'promptshieldpolicyid',
      'promptguard',
    ],
  }).flatMap(([name, aliases]) => aliases.map((alias) => [alias, name] as const)),
)

/**
 * The members of the body that this endpoint does not have. Members of other interfaces, such as `top_p`, are reported.
 * A misspelt member of this endpoint is rejected: without `smltp_policy` or `prompt_shield`, a request would run under
 * other rules than its author wanted.
 * @throws VALIDATION_ERROR
 */
function unknownIn(request: object): readonly Dropped[] {
  let unknown: Dropped[] | undefined
  let count = 0
  for (const name in request) {
    if (MEMBERS.has(name)) continue
    count += 1
    if (count > UNKNOWN_MEMBERS)
      throw invalidField('body', `The body has more than ${UNKNOWN_MEMBERS} unknown members. Remove them.`)
    const field = name.slice(0, SHOWN.chars)
    const meant = meantBy(name)
    if (meant !== '') throw invalidField(field, `Unknown member "${field}"${meant}`)
    unknown ??= []
    if (unknown.length < SHOWN.members) unknown.push({ field, why: 'gateway' })
  }
  return unknown ?? NONE
}

function meantBy(name: string): string {
  if (name.length > SLIP_CHARS) return ''
  const alias = ALIASES.get(name.toLowerCase().replace(/[^a-z]/g, ''))
  return alias === undefined ? suggestion(name, MEMBER_NAMES) : `; did you mean "${alias}"?`
}

function toConversation(request: ChatRequest): Conversation {
  requireIndexAndModel(request)
  const { prompt, messages, system_message: systemMessage } = request
  if (prompt !== undefined && messages !== undefined) {
    throw invalidField('messages', 'Send either `prompt` or `messages`, not both.')
  }
  if (prompt !== undefined) {
    return sized('prompt', { system: systemMessage ?? '', messages: [{ role: 'user', content: prompt }] })
  }
  if (messages === undefined) throw invalidField('messages', 'Send `prompt` or `messages`.')

  const turns: { role: 'user' | 'assistant'; content: string }[] = []
  let system = systemMessage
  for (const { role, content } of messages) {
    if (role !== 'system') turns.push({ role, content })
    else if (system === undefined) system = content
    else throw invalidField('messages', '`system_message` cannot be combined with a system entry in `messages`.')
  }
  if (!turns.some(({ role, content }) => role === 'user' && content.trim() !== '')) {
    throw invalidField('messages', '`messages` must contain a user message that is not empty.')
  }
  return sized('messages', { system: system ?? '', messages: turns })
}

function requireIndexAndModel(request: ChatRequest): void {
  const { index } = request
  if (index === undefined || index.trim() === '') {
    throw new GatewayError(
      'INDEX_REQUIRED',
      'Set `index` to the name of a knowledge base, or to "Zero-Knowledge" for none.',
    )
  }
  requireModel(request)
}

/** Checks the model fields of a request. Every surface uses this check. @throws MODEL_REQUIRED, VALIDATION_ERROR */
export function requireModel({ model, models, fallback_models: fallbacks }: ChatInput['chain']): void {
  if (models !== undefined && fallbacks !== undefined) {
    throw invalidField('fallback_models', '`fallback_models` cannot be combined with `models`.')
  }
  if (model === undefined && models === undefined) {
    throw new GatewayError(
      'MODEL_REQUIRED',
      'You must provide a model, as "<provider>/<model>" in `model` or a chain in `models`.',
    )
  }
}

/** Returns the request with the operator's default model if it names no model. */
export const withDefaultModel = <Request extends ChatInput['chain']>(
  request: Request,
  { names: { defaultModel } }: { names: Pick<ModelNames, 'defaultModel'> },
): Request =>
  defaultModel === undefined || request.model !== undefined || request.models !== undefined
    ? request
    : { ...request, model: defaultModel }

/**
 * Returns the provider of the first model. Unsigned reasoning without an origin is attributed to this provider. Empty
 * for a model without its provider: the origin is then unknown.
 */
export function makerOf({ model, models }: ChatInput['chain']): string {
  const first = models?.[0]?.model ?? model ?? ''
  return first.slice(0, Math.max(0, first.indexOf('/')))
}

/**
 * Limits all message contents together, including the system prompt, to MESSAGE_CONTENT_BYTES.
 * @throws VALIDATION_ERROR naming `field`
 */
function sized(field: string, conversation: Conversation): Conversation {
  let bytes = Buffer.byteLength(systemText(conversation.system))
  for (const { content } of conversation.messages) bytes += Buffer.byteLength(textOf(content))
  if (bytes > MESSAGE_CONTENT_BYTES) {
    throw invalidField(
      field,
      `The message contents have ${bytes} bytes together; the limit is ${MESSAGE_CONTENT_BYTES}. Shorten them.`,
    )
  }
  return conversation
}

/** Returns the number of answers as an option. One answer is not an option, because every provider has it. */
export const toChoices = (n: number | undefined): number | undefined => (n === 1 ? undefined : n)

/** Returns the generation options. Returns undefined if no option is set. */
export const askedOptions = (options: GenerationOptions): GenerationOptions | undefined =>
  Object.values(options).some((value) => value !== undefined) ? options : undefined
