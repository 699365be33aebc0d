/** Formats the stderr lines that describe an answer. */
import type { Change, ChatMetadata, Dropped } from '../../../shared/wire/chat.ts'
import { failureWords } from '../../api/failed-models.ts'

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)}s`

/** Returns one line for each model that failed before another model answered. */
export function failoverLines({ failover, served_model }: ChatMetadata): string[] {
  const attempts = failover?.attempts ?? []
  return attempts
    .map(({ model, status, reason = '', latency_ms }, at) =>
      status === 'failed'
        ? `! ${model} ${failureWords(reason)} after ${seconds(latency_ms)}, ` +
          `continuing with ${attempts[at + 1]?.model ?? served_model}`
        : '',
    )
    .filter((line) => line !== '')
}

/** The members of a chat request whose flags have another name. */
export const CHAT_FLAGS: Record<string, string> = {
  prompt: 'PROMPT',
  models: '--chain',
  fallback_models: '--fallback',
  'redundancy.on': '--on',
  'redundancy.commit': '--commit',
  use_rag: '--no-rag',
  smltp_policy: '--policy',
  prompt_shield: '--shield',
  system_message: '--system',
  max_tokens: '--max-tokens',
  temperature: '--temperature',
  conversation_id: '--conversation',
  user_id: '--user',
}

const flagOf = (field: string): string => (Object.hasOwn(CHAT_FLAGS, field) ? (CHAT_FLAGS[field] ?? field) : field)

const LIMITED_BY: Record<Change['why'], string> = {
  operator: 'limit of the gateway',
  key: 'limit of this key',
  budget: 'remaining budget',
  model: 'limit of the model',
  provider: 'form of the provider',
  gateway: 'limit of the endpoint',
  policy: 'rule of the policy',
}
const DROPPED_BY: Record<Dropped['why'], string> = {
  operator: 'the gateway forbids it',
  provider: 'the provider does not support it',
  gateway: 'the endpoint does not support it',
}

/** Returns one note for each field that the gateway changed or dropped. */
export function changeLines({ changed = [], dropped = [] }: Pick<ChatMetadata, 'changed' | 'dropped'>): string[] {
  return [
    ...changed.map(({ field, asked, used, why }) =>
      asked === null
        ? `note: ${flagOf(field)} was set to ${used} (${LIMITED_BY[why]})`
        : `note: ${flagOf(field)} was changed from ${asked} to ${used ?? 'none'} (${LIMITED_BY[why]})`,
    ),
    ...dropped.map(({ field, why }) => `note: ${flagOf(field)} had no effect (${DROPPED_BY[why]})`),
  ]
}

/** Returns the note that the request omits the oldest messages of the conversation. */
export const omittedLine = (count: number): string | undefined =>
  count === 0 ? undefined : `note: the first ${count} messages are omitted, because a request cannot contain more`

/** Returns the note that a limit or a filter ended the answer. */
export function finishLine(finishReason: string | undefined): string | undefined {
  if (finishReason === 'length')
    return 'note: the answer was truncated at the token limit; allow more with --max-tokens'
  if (finishReason === 'content_filter') return 'note: the provider filtered a part of the answer'
  return undefined
}

/** The answer of the built-in model already lists the sources that it quotes, so a second list would repeat them. */
export const listsItsSources = ({ served_model, sources }: ChatMetadata, finishReason: string | undefined): boolean =>
  served_model === 'local/extract' && sources.length > 0 && finishReason !== 'length'

export const sourcesLine = ({ sources }: ChatMetadata): string =>
  sources.length === 0
    ? 'Sources: none'
    : `Sources: ${sources.map(({ source, score }) => `${source} (${score.toFixed(2)})`).join(', ')}`

type UsageSeen = {
  metadata: ChatMetadata
  usage: { prompt_tokens: number; completion_tokens: number }
  firstTokenMs?: number
  totalMs: number
}

/** Formats model, tokens, times and conversation as one line. */
export const usageLine = ({ metadata, usage, firstTokenMs, totalMs }: UsageSeen): string =>
  [
    metadata.served_model,
    `${usage.prompt_tokens} in / ${usage.completion_tokens} out`,
    ...(firstTokenMs === undefined ? [] : [`first token ${seconds(firstTokenMs)}`]),
    `total ${seconds(totalMs)}`,
    metadata.conversation_id,
  ].join('  ')
