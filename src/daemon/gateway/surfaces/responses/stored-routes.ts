// The routes of stored answers. If the operator has not turned storing on, every id is unknown.
import { GatewayError } from '../../../../shared/errors.ts'
import { OpenAiError } from '../../../../shared/wire/openai.ts'
import {
  DeletedResponse,
  type InputItem,
  InputItems,
  InputItemsQuery,
  RESPONSES_PATH,
  ResponsesResponse,
} from '../../../../shared/wire/responses.ts'
import { type RequestContext, type ResponseDoc, type Route, reply, route } from '../../../platform/http/route.ts'
import { failure } from '../openai/failures.ts'
import type { ResponseStore, StoredResponse } from './store.ts'

const ONE = `${RESPONSES_PATH}/{responseId}`

const FAILURES: Record<number, ResponseDoc> = {
  400: failure('The path or the query is invalid'),
  401: failure('Key missing or invalid'),
  403: failure('The key is not allowed from this address'),
  404: failure('No stored answer of this user has this id'),
  429: failure('Rate limit of the key'),
}

const shared = { access: 'key' as const, errors: 'openai' as const, tags: ['OpenAI-compatible'] }

/**
 * The routes to read, delete and cancel stored answers.
 * @param store undefined if answers are not stored
 */
export function storedResponseRoutes(store: ResponseStore | undefined): Route[] {
  return [
    route({
      ...shared,
      method: 'GET',
      path: ONE,
      summary: 'Show a stored answer',
      responses: { 200: { description: 'The answer', schema: ResponsesResponse }, ...FAILURES },
      handle: async (context) => reply(200, (await getStored(context, store)).response),
    }),
    route({
      ...shared,
      method: 'DELETE',
      path: ONE,
      summary: 'Delete a stored answer',
      responses: { 200: { description: 'The answer is deleted', schema: DeletedResponse }, ...FAILURES },
      async handle({ caller, params: { responseId: id = '' } }) {
        if (!(await store?.delete(caller, id))) throw notFound(id, store)
        return reply(200, { id, object: 'response', deleted: true } satisfies DeletedResponse)
      },
    }),
    route({
      ...shared,
      method: 'GET',
      path: `${ONE}/input_items`,
      summary: 'List the items before a stored answer, newest first',
      query: InputItemsQuery,
      responses: { 200: { description: 'The items of the conversation', schema: InputItems }, ...FAILURES },
      async handle(context) {
        const { input, response } = await getStored(context, store)
        return reply(200, pageOf(input, response.id, context.query))
      },
    }),
    route({
      ...shared,
      method: 'POST',
      path: `${ONE}/cancel`,
      summary: 'Cancel an answer in the background: always rejected, because the gateway has none',
      responses: { ...FAILURES, 400: { description: 'The answer is not in the background', schema: OpenAiError } },
      async handle(context) {
        await getStored(context, store)
        throw new GatewayError('VALIDATION_ERROR', 'Only an answer in the background can be cancelled.')
      },
    }),
  ]
}

type StoredContext = Pick<RequestContext, 'caller' | 'params'>

/** @throws RESPONSE_NOT_FOUND */
async function getStored(
  { caller, params: { responseId: id = '' } }: StoredContext,
  store: ResponseStore | undefined,
): Promise<StoredResponse> {
  const stored = await store?.find(caller, id)
  if (!stored) throw notFound(id, store)
  return stored
}

const notFound = (id: string, store: ResponseStore | undefined) =>
  new GatewayError(
    'RESPONSE_NOT_FOUND',
    `Response with id '${id.slice(0, 100)}' not found.${store ? '' : ' The gateway stores no answers.'}`,
  )

function pageOf(input: readonly InputItem[], responseId: string, { order, limit, after }: InputItemsQuery): InputItems {
  const all = input.map((item, at) => ({ ...item, id: item.id ?? `${responseId}_in_${at}` }))
  if (order === 'desc') all.reverse()
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1
  const data = all.slice(from, from + limit)
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + data.length < all.length,
  }
}
