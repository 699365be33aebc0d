import {
  type InputItem,
  RESPONSES_PATH,
  ResponsesEvent,
  ResponsesRequest,
  ResponsesResponse,
} from '../../../../shared/wire/responses.ts'
import type { Caller } from '../../../platform/http/caller.ts'
import { type Route, route } from '../../../platform/http/route.ts'
import { type ChatOperation, chatOperation } from '../../chat/chat.ts'
import { withDefaultModel } from '../../chat/input.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import { requireFewMessages } from '../../governed/request-limits.ts'
import { FAILURES } from '../openai/failures.ts'
import { itemsOf, withEarlierItems } from './continued.ts'
import { droppedFrom } from './dropped.ts'
import { toChatInput } from './input.ts'
import { responsesSurface } from './response.ts'
import type { ResponseStore, Term } from './store.ts'
import { storedResponseRoutes } from './stored-routes.ts'
import { toTools } from './tools.ts'

/**
 * The routes for clients of OpenAI's Responses API, also available directly under `/v1`.
 * @param store undefined if answers are not stored
 */
export function responsesRoutes(deps: GovernedDeps, store: ResponseStore | undefined): Route[] {
  const { limits } = deps
  return [
    route({
      method: 'POST',
      path: RESPONSES_PATH,
      access: 'key',
      errors: 'openai',
      summary: "Create an answer in the format of OpenAI's Responses API",
      tags: ['OpenAI-compatible'],
      body: ResponsesRequest,
      bodyLimit: limits.bodyBytes,
      jsonDepth: limits.jsonDepth,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      usesCache: true,
      responses: { 200: { description: 'The answer', schema: ResponsesResponse, stream: ResponsesEvent }, ...FAILURES },
      async handle(context) {
        const { body, caller } = context
        // Before the store is read.
        const { limits: ofKey } = caller.settings
        if (typeof body.input !== 'string') requireFewMessages(body.input, limits, ofKey, 'input')
        const { request, expiresAt } = await withEarlierItems(body, context, store, limits)
        if (typeof request.input !== 'string') requireFewMessages(request.input, limits, ofKey, 'input')
        const tools = toTools(request)
        const kept =
          store && body.store !== false ? keepIn(store, { input: itemsOf(request), expiresAt }, caller) : undefined
        const dropped = droppedFrom(body, kept !== undefined)
        const operation = chatOperation(responsesSurface({ request: body, tools, dropped, keep: kept?.keep }))
        const input = toChatInput(withDefaultModel(request, deps), tools)
        return governed(kept ? kept.storing(operation) : operation, input, context, deps)
      },
    }),
    ...storedResponseRoutes(store),
  ]
}

/** Stores the complete answer of one request together with the request's other records. */
function keepIn(
  store: ResponseStore,
  { input, expiresAt }: { input: InputItem[] } & Pick<Term, 'expiresAt'>,
  caller: Caller,
) {
  let response: ResponsesResponse | undefined
  return {
    keep(complete: ResponsesResponse) {
      response = complete
    },
    storing: (operation: ChatOperation): ChatOperation => ({
      ...operation,
      async deliver(running, opened, deps) {
        const delivery = await operation.deliver(running, opened, deps)
        if (delivery.broken || !response) return delivery
        const { retentionDays: keptDays } = running.screened.policy.document
        return { ...delivery, stored: store.toRow(caller, { response, input }, { keptDays, expiresAt }) }
      },
    }),
  }
}
