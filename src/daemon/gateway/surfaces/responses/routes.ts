import {
  RESPONSES_PATH,
  ResponsesEvent,
  ResponsesRequest,
  ResponsesResponse,
} from '../../../../shared/wire/responses.ts'
import { type Route, route } from '../../../platform/http/route.ts'
import { chatOperation } from '../../chat/chat.ts'
import { requireFewMessages } from '../../chat/input.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import { FAILURES } from '../openai/failures.ts'
import { toChatInput } from './input.ts'
import { responsesSurface } from './response.ts'
import { toTools } from './tools.ts'

/** The route for clients of OpenAI's Responses API, also available directly under `/v1`. */
export function responsesRoutes(deps: GovernedDeps): Route[] {
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
      responses: { 200: { description: 'The answer', schema: ResponsesResponse, stream: ResponsesEvent }, ...FAILURES },
      handle(context) {
        const { body: request } = context
        if (typeof request.input !== 'string') requireFewMessages(request.input, limits, 'input')
        const tools = toTools(request)
        const operation = chatOperation(responsesSurface({ request, tools }))
        return governed(operation, toChatInput(request, tools), context, deps)
      },
    }),
  ]
}
