import {
  COMPLETIONS_PATH,
  CompletionChunk,
  CompletionRequest,
  CompletionResponse,
} from '../../../../shared/wire/completions.ts'
import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import { type Route, route } from '../../../platform/http/route.ts'
import { chatOperation } from '../../chat/chat.ts'
import { askedOptions, type ChatInput, requireModel, toChoices, withDefaultModel } from '../../chat/input.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import { FAILURES } from '../openai/failures.ts'
import { completionsSurface } from './response.ts'

const COMPLETION = chatOperation(completionsSurface({ includeUsage: false, choices: 1 }))
const COMPLETION_WITH_USAGE = chatOperation(completionsSurface({ includeUsage: true, choices: 1 }))

/** The route of OpenAI's older API for completions, also available directly under `/v1`. */
export function completionsRoutes(deps: GovernedDeps): Route[] {
  const { limits } = deps
  return [
    route({
      method: 'POST',
      path: COMPLETIONS_PATH,
      access: 'key',
      errors: 'openai',
      summary: "Continue a text, in the format of OpenAI's older API",
      tags: ['OpenAI-compatible'],
      body: CompletionRequest,
      bodyLimit: limits.bodyBytes,
      jsonDepth: limits.jsonDepth,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      usesCache: true,
      responses: {
        200: { description: 'The continuation', schema: CompletionResponse, stream: CompletionChunk },
        ...FAILURES,
      },
      handle(context) {
        const { n: choices = 1, stream_options: { include_usage: includeUsage = false } = {} } = context.body
        const usual = includeUsage ? COMPLETION_WITH_USAGE : COMPLETION
        const operation = choices === 1 ? usual : chatOperation(completionsSurface({ includeUsage, choices }))
        return governed(operation, toChatInput(withDefaultModel(context.body, deps)), context, deps)
      },
    }),
  ]
}

/** @throws MODEL_REQUIRED, VALIDATION_ERROR */
export function toChatInput(request: CompletionRequest): ChatInput {
  requireModel(request)
  const { prompt, stop } = request
  const unknown = Object.entries(request).filter(
    ([name, value]) => value !== undefined && value !== null && !Object.hasOwn(CompletionRequest.shape, name),
  )
  return {
    conversation: { system: '', messages: prompt.map((content) => ({ role: 'user' as const, content })) },
    chain: request,
    index: ZERO_KNOWLEDGE,
    useRag: false,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    temperature: request.temperature,
    maxTokens: request.max_tokens,
    stream: request.stream ?? false,
    dropped: unknown.map(([name]) => ({ field: name.slice(0, SHOWN_CHARS), why: 'gateway' as const })),
    options: askedOptions({
      stop: typeof stop === 'string' ? [stop] : stop,
      topP: request.top_p,
      frequencyPenalty: request.frequency_penalty,
      presencePenalty: request.presence_penalty,
      seed: request.seed,
      choices: toChoices(request.n),
      user: request.user,
    }),
  }
}

const SHOWN_CHARS = 100
