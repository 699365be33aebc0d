import { GatewayError, invalidField } from '../../../../shared/errors.ts'
import {
  type InputItem,
  InputItemList,
  type OutputItem,
  type ResponsesRequest,
} from '../../../../shared/wire/responses.ts'
import type { Caller } from '../../../platform/http/caller.ts'
import type { RequestLimits } from '../../config.ts'
import type { ResponseStore } from './store.ts'

/**
 * Returns the request with the conversation of the answer that it continues. Instructions of earlier requests do not
 * apply, as in the original API.
 * @param store undefined if answers are not stored. Every id is then unknown
 * @throws PREVIOUS_RESPONSE_NOT_FOUND; VALIDATION_ERROR if the conversation is larger than a body may be
 */
export async function withEarlierItems(
  request: ResponsesRequest,
  caller: Caller,
  store: ResponseStore | undefined,
  { bodyBytes }: Pick<RequestLimits, 'bodyBytes'>,
): Promise<ResponsesRequest> {
  const own = await withReferredItems(itemsOf(request), caller, store)
  const { previous_response_id: id } = request
  if (id === undefined) return typeof request.input === 'string' ? request : { ...request, input: own }
  const stored = await store?.find(caller, id)
  if (!stored) {
    const remedy = store ? '' : ' The gateway stores no answers. Send all items in `input`.'
    throw new GatewayError(
      'PREVIOUS_RESPONSE_NOT_FOUND',
      `Previous response with id '${id.slice(0, 100)}' not found.${remedy}`,
    )
  }
  const input = [...stored.input, ...InputItemList.parse(stored.response.output.filter(isWhole)), ...own]
  if (Buffer.byteLength(JSON.stringify(input)) > bodyBytes) {
    throw invalidField(
      'previous_response_id',
      `The stored conversation and \`input\` have more than ${bodyBytes} bytes together. Begin a new conversation.`,
    )
  }
  return { ...request, input }
}

const ITEM_ID = /^[a-z]+_(.+)_\d+$/

/** Replaces references to items of stored answers. Unknown references remain; they are rejected later. */
async function withReferredItems(
  items: InputItem[],
  caller: Caller,
  store: ResponseStore | undefined,
): Promise<InputItem[]> {
  const references = items.flatMap((item) => (item.type === 'item_reference' ? item.id : []))
  if (!store || references.length === 0) return items
  // The id of an item contains the id of its answer, so each answer is read once.
  const answers = new Set(references.flatMap((id) => ITEM_ID.exec(id)?.[1] ?? []))
  const known = new Map<string, InputItem>()
  for (const bareId of answers) {
    const stored = await store.find(caller, `resp_${bareId}`)
    for (const item of InputItemList.parse(stored?.response.output ?? [])) {
      if (item.id !== undefined) known.set(item.id, item)
    }
  }
  return items.map((item) => (item.type === 'item_reference' ? (known.get(item.id) ?? item) : item))
}

/** The input of a request as items. */
export const itemsOf = ({ input }: ResponsesRequest): InputItem[] =>
  typeof input === 'string' ? InputItemList.parse([{ role: 'user', content: input }]) : input

/** A call that the token limit cut off has no result, so models would reject it. */
const isWhole = (item: OutputItem): boolean =>
  item.type === 'reasoning' || item.type === 'message' || item.status === 'completed'
