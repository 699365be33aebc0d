/** Builds the chat request from flags and prompt. */
import { FALLBACK_MODELS, MESSAGE_CONTENT_BYTES, MODELS_PER_CHAIN } from '../../../shared/spec-limits.ts'
import type { CommitPoint, FailoverTrigger } from '../../../shared/wire/chat.ts'
import type { ZERO_KNOWLEDGE } from '../../../shared/wire/indexes.ts'
import { usageError } from '../../errors.ts'
import { getDuration } from '../../input/duration.ts'
import type { ChatDefaults } from '../../profile/config-files.ts'
import { getIndexName } from '../indexes/name.ts'
import type { Message } from './conversation.ts'

/** The index name that means "no retrieval". The compiler checks that this name equals the name in the API. */
const NO_INDEX: typeof ZERO_KNOWLEDGE = 'Zero-Knowledge'

export const TRIGGERS = [
  'connection_error',
  'server_error',
  'rate_limit',
  'timeout',
] as const satisfies FailoverTrigger[]

/** The flags of `chat` that set members of the request. */
export type ChatInput = {
  models: string[]
  fallbacks: string[]
  chain: string | undefined
  triggers: FailoverTrigger[]
  commit: CommitPoint | undefined
  index: string | undefined
  rag: boolean
  policy: string | undefined
  /** `''` enables the shield with the default policy, false disables it, and undefined means the gateway's default. */
  shield: string | false | undefined
  system: string | undefined
  temperature: string | undefined
  maxTokens: string | undefined
  conversation: string | undefined
  user: string | undefined
}

/** The parts of one prompt, joined in this order. */
export type PromptParts = { files: { name: string; text: string }[]; piped: string; words: string[] }

type ChainEntry = { model: string; timeout_ms?: number; first_token_timeout_ms?: number }

/** Encloses the text in a code fence that is longer than any fence in the text. */
function fenced({ name, text }: { name: string; text: string }): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}${name}\n${text.endsWith('\n') ? text : `${text}\n`}${fence}`
}

/**
 * Joins the files, the piped text and the words in this order, separated by blank lines. Throws a usage error if the
 * result is too long.
 */
export function toPrompt({ files, piped, words }: PromptParts): string {
  const parts = [...files.map(fenced), piped.replace(/\n+$/, ''), words.join(' ')]
  const prompt = parts.filter((part) => part.trim() !== '').join('\n\n')
  const bytes = Buffer.byteLength(prompt)
  if (bytes > MESSAGE_CONTENT_BYTES) {
    throw usageError(`the prompt has ${bytes} bytes; at most ${MESSAGE_CONTENT_BYTES} are allowed`, [
      'Put large documents into an index:  aigw indexes add INDEX FILE',
    ])
  }
  return prompt
}

/** Parses one entry of `--chain`: `A`, `A@8s` (timeout of the attempt) or `A@8s/2s` (also a first-token timeout). */
export function toChainEntry(text: string): ChainEntry {
  const [, model = '', whole, first] =
    /^(.+?)(?:@(\d[\d.]*(?:ms|s|m|h))(?:\/(\d[\d.]*(?:ms|s|m|h)))?)?$/.exec(text) ?? []
  return {
    model: toModel(model),
    ...(whole === undefined ? {} : { timeout_ms: getDuration(whole, '--chain') }),
    ...(first === undefined ? {} : { first_token_timeout_ms: getDuration(first, '--chain') }),
  }
}

function toModel(text: string): string {
  if (/^[^/\s]+(\/\S+)?$/.test(text)) return text
  throw usageError(`'${text}' is not a model`, [
    'A model is written PROVIDER/MODEL, e.g. local/extract, or as a name that `aigw models list` shows.',
  ])
}

type Redundancy = { on?: FailoverTrigger[]; commit?: CommitPoint }
type ModelFields = { model?: string; models?: ChainEntry[]; fallback_models?: string[] }

function toModels(
  { models = [], fallbacks = [], chain }: Partial<ChatInput>,
  byDefault: string | undefined,
): ModelFields {
  if (chain !== undefined) {
    if (models.length + fallbacks.length > 0) throw usageError('--chain cannot be combined with --model or --fallback')
    const entries = chain.split(',').filter((entry) => entry !== '')
    if (entries.length === 0 || entries.length > MODELS_PER_CHAIN) {
      throw usageError(`--chain takes 1 to ${MODELS_PER_CHAIN} models`)
    }
    return { models: entries.map((entry) => toChainEntry(entry.trim())) }
  }
  const [model = byDefault, ...others] = models.map(toModel)
  if (model === undefined) {
    throw usageError('no model given', ['Name one:  -m local/extract', 'Or set chat.model in your profile.'])
  }
  const following = [...others, ...fallbacks.map(toModel)]
  if (following.length > FALLBACK_MODELS) throw usageError(`at most ${FALLBACK_MODELS} models may follow the first`)
  return following.length === 0 ? { model } : { model, fallback_models: following }
}

function toRedundancy({ triggers = [], commit }: Partial<ChatInput>): { redundancy?: Redundancy } {
  if (triggers.length === 0 && commit === undefined) return {}
  return {
    redundancy: { ...(triggers.length > 0 && { on: triggers }), ...(commit !== undefined && { commit }) },
  }
}

function toNumber(text: string | undefined, flag: string): number | undefined {
  if (text === undefined) return undefined
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number)) return number
  throw usageError(`${flag} must be a number, not '${text}'`)
}

/**
 * Returns the index of the request, from the flag or the profile. The default is `none` (Zero-Knowledge): the request
 * uses no retrieval.
 */
export function toIndex(flag: string | undefined, byDefault: string | undefined): string {
  const index = flag ?? byDefault ?? NO_INDEX
  const meansNone = index === 'none' || index.toLowerCase() === NO_INDEX.toLowerCase()
  return meansNone ? NO_INDEX : getIndexName(index)
}

/** A single question, or the latest messages of a conversation. */
export type PromptText = { prompt: string } | { messages: Message[] }

/** Returns the body of POST /chat/completions. The gateway applies its defaults for omitted members. */
export function toChatRequest(input: Partial<ChatInput>, text: PromptText, defaults: ChatDefaults, stream: boolean) {
  const temperature = toNumber(input.temperature, '--temperature')
  const maxTokens = toNumber(input.maxTokens, '--max-tokens')
  const policy = input.policy ?? defaults.policy
  const { shield } = input
  return {
    ...text,
    ...toModels(input, defaults.model),
    index: toIndex(input.index, defaults.index),
    ...toRedundancy(input),
    ...(input.rag === false ? { use_rag: false } : {}),
    ...(policy === undefined ? {} : { smltp_policy: policy }),
    ...(shield === undefined ? {} : { prompt_shield: toShield(shield) }),
    ...(input.system === undefined ? {} : { system_message: input.system }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(input.conversation === undefined ? {} : { conversation_id: input.conversation }),
    ...(input.user === undefined ? {} : { user_id: input.user }),
    stream,
  }
}

/** Returns the first model of a request. The progress line shows it. */
export const firstModel = ({ model, models }: { model?: string; models?: { model: string }[] }): string =>
  model ?? models?.[0]?.model ?? 'an answer'

function toShield(shield: string | false): { enabled: boolean; policy?: string } {
  if (shield === false) return { enabled: false }
  return shield === '' ? { enabled: true } : { enabled: true, policy: shield }
}
