import { GatewayError, invalidField } from '../../../../shared/errors.ts'
import { REFERRED_RESPONSES } from '../../../../shared/spec-limits.ts'
import {
  type InputItem,
  InputItemList,
  type OutputItem,
  type ResponsesRequest,
} from '../../../../shared/wire/responses.ts'
import type { RequestContext } from '../../../platform/http/route.ts'
import type { RequestLimits } from '../../config.ts'
import type { ResponseStore } from './store.ts'

type Reader = Pick<RequestContext, 'caller' | 'signal'>

/**
 * Returns the request with the conversation of the answer that it continues. Instructions of earlier requests do not
 * apply, as in the original API.
 * @param store undefined if answers are not stored. Every id is then unknown
 * @returns also when the first of the stored answers in the conversation expires. Undefined if there are none
 * @throws PREVIOUS_RESPONSE_NOT_FOUND; VALIDATION_ERROR if the conversation is larger than a body may be, or refers to
 * items of too many answers; the reason of the signal
 */
export async function withEarlierItems(
  request: ResponsesRequest,
  reader: Reader,
  store: ResponseStore | undefined,
  limits: Pick<RequestLimits, 'bodyBytes'>,
): Promise<{ request: ResponsesRequest; expiresAt: string | undefined }> {
  const { items: own, expiresAt } = await withReferredItems(itemsOf(request), reader, store)
  const { previous_response_id: id } = request
  if (id === undefined) {
    return { request: typeof request.input === 'string' ? request : { ...request, input: own }, expiresAt }
  }
  reader.signal.throwIfAborted()
  const stored = await store?.find(reader.caller, id)
  if (!stored) {
    const remedy = store ? '' : ' The gateway stores no answers. Send all items in `input`.'
    throw new GatewayError(
      'PREVIOUS_RESPONSE_NOT_FOUND',
      `Previous response with id '${id.slice(0, 100)}' not found.${remedy}`,
    )
  }
  const input = [...stored.input, ...InputItemList.parse(stored.response.output.filter(isWhole)), ...own]
  const bodyBytes = Math.min(limits.bodyBytes, reader.caller.settings.limits.bodyBytes ?? Number.POSITIVE_INFINITY)
  if (Buffer.byteLength(JSON.stringify(input)) > bodyBytes) {
    throw invalidField(
      'previous_response_id',
      `The stored conversation and \`input\` have more than ${bodyBytes} bytes together. Begin a new conversation.`,
    )
  }
  return { request: { ...request, input }, expiresAt: earlier(expiresAt, stored.expiresAt) }
}

const ITEM_ID = /^[a-z]+_(.+)_\d+$/

/**
 * Replaces references to items of stored answers. Unknown references remain; they are rejected later.
 * @throws VALIDATION_ERROR if there are references to too many answers
 */
async function withReferredItems(
  items: InputItem[],
  { caller, signal }: Reader,
  store: ResponseStore | undefined,
): Promise<{ items: InputItem[]; expiresAt: string | undefined }> {
  const references = items.flatMap((item) => (item.type === 'item_reference' ? item.id : []))
  if (!store || references.length === 0) return { items, expiresAt: undefined }
  // The id of an item contains the id of its answer, so each answer is read once.
  const answers = new Set(references.flatMap((id) => ITEM_ID.exec(id)?.[1] ?? []))
  if (answers.size > REFERRED_RESPONSES) {
    throw invalidField(
      'input',
      `\`input\` refers to items of ${answers.size} stored answers; the limit is ${REFERRED_RESPONSES}. Send the items themselves, or continue the last answer with \`previous_response_id\`.`,
    )
  }
  const known = new Map<string, InputItem>()
  let expiresAt: string | undefined
  for (const bareId of answers) {
    signal.throwIfAborted()
    const stored = await store.find(caller, `resp_${bareId}`)
    if (!stored) continue
    expiresAt = earlier(expiresAt, stored.expiresAt)
    for (const item of InputItemList.parse(stored.response.output)) {
      if (item.id !== undefined) known.set(item.id, item)
    }
  }
  return {
    items: items.map((item) => (item.type === 'item_reference' ? (known.get(item.id) ?? item) : item)),
    expiresAt,
  }
}

/** Returns the earlier of two times in ISO 8601. */
const earlier = (one: string | undefined, other: string): string => (one !== undefined && one < other ? one : other)

/** The input of a request as items. */
export const itemsOf = ({ input }: ResponsesRequest): InputItem[] =>
  typeof input === 'string' ? InputItemList.parse([{ role: 'user', content: input }]) : input

/** A call that the token limit cut off has no result, so models would reject it. */
const isWhole = (item: OutputItem): boolean =>
  (item.type !== 'function_call' && item.type !== 'custom_tool_call') || item.status === 'completed'
