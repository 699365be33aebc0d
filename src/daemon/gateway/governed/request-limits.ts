// The limits of one request: those of the operator, lowered by the key.
import { invalidField } from '../../../shared/errors.ts'
import type { KeyRequestLimits } from '../../../shared/wire/keys.ts'
import { systemText, textOf } from '../../models/conversation.ts'
import type { SetLimit } from '../../models/output-limits.ts'
import type { RequestLimits } from '../config.ts'
import type { GovernedInput } from './input.ts'

/** The limits of the operator that a key may lower. All are undefined on endpoints with fixed limits. */
export type OperatorLimits = Partial<
  Pick<RequestLimits, 'messages' | 'contentBytes' | 'tools' | 'maxTokens' | 'defaultMaxTokens'>
>

/** Returns the lower of two limits, or undefined if there is none. */
function lowest(operator: number | undefined, key: number | null): SetLimit | undefined {
  if (key !== null && (operator === undefined || key < operator)) return { most: key, by: 'key' }
  return operator === undefined ? undefined : { most: operator, by: 'operator' }
}

/** Returns the limit of an answer. The default limit applies if the request sets none. */
export function answerLimit(
  asked: number | undefined,
  operator: OperatorLimits,
  key: KeyRequestLimits,
): SetLimit | undefined {
  const limit = lowest(operator.maxTokens, key.maxTokens)
  if (asked !== undefined) return limit
  const byDefault = lowest(operator.defaultMaxTokens, key.defaultMaxTokens)
  return byDefault && !(limit && limit.most < byDefault.most) ? byDefault : limit
}

/** What the APIs call the messages, by the field that contains them. */
const ITEMS = { messages: 'messages', input: 'items', contents: 'contents' } as const

/**
 * Checks the number of messages. Requests of some APIs have other names for messages.
 * @throws VALIDATION_ERROR naming `field`
 */
export function requireFewMessages(
  messages: readonly unknown[],
  operator: OperatorLimits,
  key: KeyRequestLimits,
  field: keyof typeof ITEMS = 'messages',
): void {
  const limit = lowest(operator.messages, key.messages)
  if (!limit || messages.length <= limit.most) return
  throw invalidField(field, `The request has ${messages.length} ${ITEMS[field]}; ${allowed(limit)}. Send fewer.`)
}

/**
 * Checks the size of the conversation's texts and the number of tools.
 * @throws VALIDATION_ERROR
 */
export function requireWithin(
  { conversation: { system, messages }, options }: Pick<GovernedInput, 'conversation' | 'options'>,
  operator: OperatorLimits,
  key: KeyRequestLimits,
): void {
  const forTools = lowest(operator.tools, key.tools)
  const tools = options?.tools?.length ?? 0
  if (forTools && tools > forTools.most) {
    throw invalidField('tools', `The request has ${tools} tools; ${allowed(forTools)}. Send fewer.`)
  }
  const forContent = lowest(operator.contentBytes, key.contentBytes)
  if (!forContent) return
  let bytes = Buffer.byteLength(systemText(system))
  for (const { content } of messages) bytes += Buffer.byteLength(textOf(content))
  if (bytes <= forContent.most) return
  throw invalidField('messages', `The request has ${bytes} bytes of text; ${allowed(forContent)}. Shorten it.`)
}

const allowed = ({ most, by }: SetLimit): string =>
  `${by === 'key' ? 'this key' : 'the operator'} allows at most ${most}`
