// The chat operation: retrieves passages, streams one model's answer through the guards, and renders it for a surface.

import { asksForAudio } from '../../models/conversation.ts'
import { ProviderError } from '../../models/provider.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import { reply } from '../../platform/http/route.ts'
import { LARGE_JSON_BYTES } from '../../platform/text/json-reader.ts'
import { type AnswerGuard, guardAnswer } from '../../safety/guards/stream/answer-guard.ts'
import { guardChoices } from '../../safety/guards/stream/choices-guard.ts'
import { OutputBlocked } from '../../safety/guards/stream/output-blocked.ts'
import { guardSpoken } from '../../safety/guards/stream/spoken-guard.ts'
import type { GuardIncident } from '../../safety/incidents/incident.ts'
import type { ClientStream } from '../governed/client-stream.ts'
import { countBilledTokens } from '../governed/count-tokens.ts'
import type { GovernedDeps } from '../governed/deps.ts'
import { messageOf, type Opened, PROVIDER_MESSAGE } from '../governed/failover.ts'
import { type Delivery, type Operation, type Refused, type Running, textsOf } from '../governed/operation.ts'
import { CLIENT_LEFT_STATUS, isOfClient, toErrorBody } from '../governed/refusal.ts'
import type { Envelope } from './answer-contract.ts'
import { type Begun, beginAnswer } from './begin-answer.ts'
import { attemptsWith, finishOf, readAnswer, toErrorFrame, toRefusal } from './ending.ts'
import { toEnvelope } from './envelope.ts'
import { type Grounded, groundCall } from './ground-call.ts'
import type { ChatInput } from './input.ts'
import { noticesOf } from './notices.ts'
import { limitOf, toOrder } from './output-limit.ts'
import { CHAT_CACHING } from './recorded-answer.ts'
import type { Surface } from './surface.ts'

export type ChatOperation = Operation<ChatInput, Grounded, Begun>
type RunningChat = Running<ChatInput, Grounded>

/** Creates the chat operation of one API. */
export const chatOperation = (surface: Surface): ChatOperation => ({
  name: 'chat.completion',
  path: surface.path,
  errors: surface.errors,
  isCompatible: surface.isCompatible,
  keepAlive: surface.keepAlive,
  prepare: groundCall,
  orderOf: (screened, { call }, requestId, { limits }) =>
    toOrder(requestId, screened, call, surface.isCompatible ? limits : {}),
  begin(running, attempt, terms, deps) {
    const { context, prepared, screened, signal } = running
    const limit = limitOf(running, attempt, deps)
    const { commit } = screened.chain
    return beginAnswer(prepared.call, { attempt, limit, commit, terms, signal, isLarge: context.isLarge })
  },
  caching: CHAT_CACHING,
  refuse: (running, stream, error, deps) => refuse(running, stream, error, surface, deps),
  deliver: (running, opened, deps) => deliver(running, opened, surface, deps),
})

/** Forwards the answer through the guards until it ends, counts its tokens, and renders its end. */
async function deliver(
  running: RunningChat,
  opened: Opened<Begun>,
  surface: Surface,
  deps: GovernedDeps,
): Promise<Delivery> {
  const { context, screened, prepared, signal, keeps, stream } = running
  const { limit } = opened.begun
  const { traceId } = screened.origin
  const { changed, dropped } = noticesOf(running, opened.attempt, limit)
  const envelope = toEnvelope(running, opened, deps, { changed, dropped, retrieved: prepared })
  envelope.stops = stopsOf(screened)
  const answer = stream ? surface.streamed(envelope, stream) : surface.whole(envelope)
  const { choices } = prepared.call.options ?? {}
  const guard = guardOf(running, deps) // DLP, PII, canaries and prompt shield on the answer
  const ending = await readAnswer(opened, guard, answer, signal) // forwards the parts until the answer ends
  const mostTokens = limit.tokens === undefined ? undefined : limit.tokens * (choices ?? 1)
  const usage = await countBilledTokens(running, opened, mostTokens, ending.output, deps)
  const { outcome } = ending
  const incidents = incidentsOf(guard, context.requestId, deps)
  const finish = finishOf(ending)
  if (finish !== undefined) {
    const closed = answer.close(finish, usage, ending.output.generated.length > LARGE_JSON_BYTES)
    const { contentType, body, sha256 } = closed instanceof Promise ? await closed : closed
    const response = { status: 200, contentType, body, sha256 }
    return { outcome, usage, incidents, broken: undefined, response, send: () => answer.send(), fail }
  }
  const { failure } = ending
  const heads = headsWith(failure, opened, (said) =>
    deps.cleanMessage(said, [...textsOf(running), ending.output.generated]),
  )
  logBrokenAnswer(failure, { ...opened, heads }, context, deps)
  const refusal = toRefusal(failure, opened, traceId)
  const isBlocked = failure instanceof OutputBlocked
  const response = toBrokenResponse(failure, refusal)
  const attempts = failure instanceof ProviderError ? attemptsWith(failure, opened) : undefined
  return {
    outcome,
    usage,
    incidents,
    broken: { refusal, isBlocked, attempts, heads },
    response,
    fail,
    send() {
      if (stream) return answer.send()
      if (keeps && isBlocked) return reply(response.status, response.body)
      throw refusal
    },
  }

  /** If no byte was sent yet, the error itself becomes the response. */
  function fail(error: unknown): void {
    if (!stream || !context.response.headersSent) return
    answer.fail(toErrorFrame(error, traceId))
    answer.send()
  }

  /** For a broken answer, the full output to the client: the frames of the stream, or the error response. */
  function toBrokenResponse(failure: unknown, refusal: unknown): Delivery['response'] {
    const contentType = 'application/json'
    if (isOfClient(failure)) {
      const sha256 = answer.abandon()
      return { status: sha256 === null ? CLIENT_LEFT_STATUS : 200, contentType, body: '', sha256 }
    }
    const broken = answer.fail(toErrorFrame(failure, traceId))
    return broken ? { status: 200, ...broken } : { contentType, ...toErrorBody(refusal, surface.errors, context) }
  }
}

/** Creates the guards of the answer, or of each of several answers. */
function guardOf({ screened, prepared }: RunningChat, deps: GovernedDeps): AnswerGuard {
  const { options } = prepared.call
  const usual = () => guardAnswer(screened.guarded, deps)
  if (!options) return usual()
  const create = asksForAudio(options) ? () => guardSpoken(usual()) : usual
  return options.choices === undefined ? create() : guardChoices(options.choices, create)
}

/** Ends a stream that has only keep-alives. No model has answered, so the request's first model stands for all. */
function refuse(
  running: RunningChat,
  stream: ClientStream,
  error: unknown,
  surface: Surface,
  deps: GovernedDeps,
): Refused {
  if (isOfClient(error)) return { status: CLIENT_LEFT_STATUS, sha256: stream.abandon(), send() {} }
  const [attempt] = running.screened.chain.attempts
  const envelope = toEnvelope(running, { attempt, attempts: [] }, deps)
  const answer = surface.streamed(envelope, stream)
  const sha256 = answer.fail(toErrorFrame(error, running.screened.origin.traceId))?.sha256 ?? null
  return { status: 200, sha256, send: () => void answer.send() }
}

/** Adds the provider's own message about the failure to the head of the serving attempt. */
function headsWith(
  failure: unknown,
  { heads, attempts }: Opened<Begun>,
  clean: (said: string) => string | undefined,
): Opened<Begun>['heads'] {
  const message = failure instanceof ProviderError ? messageOf(failure, clean) : undefined
  const at = attempts.length - 1
  if (message === undefined || !heads[at]) return heads
  return heads.with(at, { ...heads[at], message })
}

/** Guards may have changed the stop sequences. */
function stopsOf({ input, options }: RunningChat['screened']): Envelope['stops'] {
  const asked = input.options?.stop
  return asked && options?.stop ? { asked, sent: options.stop } : undefined
}

function logBrokenAnswer(
  failure: unknown,
  { attempt, attempts, heads }: Opened<Begun>,
  { requestId }: Pick<RunningChat['context'], 'requestId'>,
  { log }: Pick<GovernedDeps, 'log'>,
): void {
  if (failure instanceof RequestAborted) return
  const head = heads[attempts.length - 1]
  const facts = {
    request_id: requestId,
    model: attempt.modelId,
    requested_model: attempt.requested === attempt.modelId ? undefined : attempt.requested,
    provider: attempt.provider.name,
    provider_status: head?.status,
    provider_request_id: head?.requestId,
    reason: failure instanceof ProviderError ? failure.reason : undefined,
  }
  log.warn({ ...facts, error: failure }, 'answer broke off')
  if (head?.message !== undefined) log.debug({ ...facts, provider_message: head.message }, PROVIDER_MESSAGE)
}

/** A guard that fails while it summarises its findings must not prevent the billing. */
function incidentsOf(
  guard: AnswerGuard,
  requestId: string,
  { log }: Pick<GovernedDeps, 'log'>,
): readonly GuardIncident[] {
  try {
    return guard.incidents()
  } catch (error) {
    log.error({ error, request_id: requestId }, 'the findings of the guards in an answer could not be summarised')
    return []
  }
}
