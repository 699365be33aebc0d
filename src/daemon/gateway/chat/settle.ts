import { isoTime } from '../../../shared/time.ts'
import type { Charge, Order } from '../../metering/usage/billing.ts'
import { counting } from '../../metering/usage/counts.ts'
import type { Payment } from '../../metering/usage/payment.ts'
import type { OutputLimit } from '../../models/output-limits.ts'
import { ProviderError, type TokenUsage } from '../../models/provider.ts'
import type { UsageRecordRow } from '../../platform/db/tables.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import { type Reply, type RequestContext, reply } from '../../platform/http/route.ts'
import { createPacer, runInSlices } from '../../platform/pacing.ts'
import type { Answered } from '../../records/evidence/request-entry.ts'
import type { AnswerGuard } from '../../safety/guards/stream/answer-guard.ts'
import { OutputBlocked } from '../../safety/guards/stream/output-blocked.ts'
import { addIncidents, type GuardIncident } from '../../safety/incidents/incident.ts'
import type { Answer } from './answer-contract.ts'
import type { ChatDeps } from './deps.ts'
import { attemptsWith, type Ending, finishOf, toErrorFrame, toRefusal } from './ending.ts'
import { addEntry, CLIENT_LEFT_STATUS, commitEntry, errorWord, isOfClient, toErrorBody } from './evidence.ts'
import type { OpenAnswer } from './failover.ts'
import { addFailoverEvents } from './failover-events.ts'
import type { ReplaySlot } from './idempotency.ts'
import type { Screened } from './screen.ts'
import type { Surface } from './surface.ts'

type Served = {
  context: RequestContext
  surface: Surface
  admitted: Screened
  guard: AnswerGuard
  order: Order
  payment: Payment
  opened: OpenAnswer
  /** The output limit that was sent to the model. */
  limit: OutputLimit
  answer: Answer
  ending: Ending
  replay: ReplaySlot | undefined
}

/**
 * Commits the bill, then sends the last bytes to the client. All generated output is billed, even if the answer broke
 * off or the client disconnected. A complete answer is stored for replay. The rejection of a blocked answer is also
 * stored, because otherwise a retry would pay for the model again.
 * @throws the failure of the answer if no byte was sent; the ledger's error if the commit failed
 */
export async function settle(served: Served, deps: ChatDeps): Promise<Reply | undefined> {
  const { admitted, order, payment, opened, limit, answer, ending, replay } = served
  const { traceId } = admitted.origin
  const { usage, doubts } = await runInSlices(counting(order.call, limit.tokens, ending.output), createPacer())
  if (doubts) {
    const facts = { request_id: order.requestId, model: opened.attempt.modelId, told: doubts, billed: usage }
    deps.log.error(facts, 'a provider reported implausible token counts, which are not billed')
  }
  const charge = deps.billing.charge(order, payment, { modelId: opened.attempt.modelId, usage })
  const record = toUsageRecord(served, usage, charge, deps)
  const { spend } = charge
  const { reserved } = payment
  // The key's counters join this commit, which saves a separate commit.
  const counters = served.context.takeCounters()
  const records = { usage: record, spend, counters, ...(reserved && { reserved }), ...replay?.fence }
  const found = incidentsOf(served, deps)
  const origin = { ...admitted.origin, model: opened.attempt.modelId }
  const now = deps.clock.now()
  const bill = addIncidents(addFailoverEvents(records, opened.attempts, served.context, now), found, origin, now)
  const { evidence } = admitted
  evidence.attempts = opened.attempts
  evidence.incidents.push(...found)
  const answered: Answered = {
    outcome: ending.outcome,
    model: record.served_model,
    usage,
    cost: { mode: record.billing_mode, nanos: record.cost_nanos, points: record.points },
    firstTokenMs: opened.firstTokenMs,
  }
  const latencyMs = record.latency_ms
  const finish = finishOf(ending)
  if (finish !== undefined) {
    const kept = answer.close(finish, usage)
    const responseSha256 = kept.sha256
    const end = {
      atMs: now,
      latencyMs,
      result: 'success',
      status: 200,
      error: undefined,
      responseSha256,
      answered,
    } as const
    addEntry(bill, evidence, end)
    if (replay) bill.idempotency = replay.toRow({ status: 200, ...kept })
    try {
      await commitEntry(bill, served.context, deps.ledger)
      payment.settled(charge)
    } catch (error) {
      answer.fail(toErrorFrame(error, traceId))
      answer.send()
      throw error
    }
    return answer.send()
  }
  const { failure } = ending
  if (!(failure instanceof RequestAborted)) {
    const head = evidence.heads[opened.attempts.length - 1]
    const facts = {
      request_id: record.request_id,
      model: record.served_model,
      provider: opened.attempt.provider.name,
      provider_status: head?.status,
      provider_request_id: head?.requestId,
      reason: failure instanceof ProviderError ? failure.reason : undefined,
      latency_ms: latencyMs,
    }
    deps.log.warn({ ...facts, error: failure }, 'answer broke off')
  }
  const refusal = toRefusal(failure, opened, traceId)
  const isBlocked = failure instanceof OutputBlocked
  const { status, contentType, body, sha256 } = toBroken(served, refusal)
  if (failure instanceof ProviderError) evidence.attempts = attemptsWith(failure, opened)
  const [result, error] = [isBlocked ? 'denied' : 'failure', errorWord(refusal)] as const
  addEntry(bill, evidence, { atMs: now, latencyMs, result, status, error, responseSha256: sha256, answered })
  if (replay && isBlocked) bill.idempotency = replay.toRow({ status, contentType, body })
  await commitEntry(bill, served.context, deps.ledger)
  payment.settled(charge)
  if (!isBlocked) replay?.broke(refusal)
  if (admitted.stream) return answer.send()
  if (replay && isBlocked) return reply(status, body)
  throw refusal
}

/** Returns everything that the client of a broken answer receives: the frames of the stream, or the error response. */
function toBroken(
  { answer, ending, context, admitted }: Served,
  refusal: unknown,
): { status: number; contentType: string; body: string; sha256: string | null } {
  const contentType = 'application/json'
  if (isOfClient(ending.failure)) {
    const sha256 = answer.abandon()
    return { status: sha256 === null ? CLIENT_LEFT_STATUS : 200, contentType, body: '', sha256 }
  }
  const broken = answer.fail(toErrorFrame(ending.failure, admitted.origin.traceId))
  return broken ? { status: 200, ...broken } : { contentType, ...toErrorBody(refusal, admitted.evidence, context) }
}

/** A guard that fails while it summarises its findings must not prevent the billing. */
function incidentsOf({ guard, order }: Served, { log }: ChatDeps): GuardIncident[] {
  try {
    return guard.incidents()
  } catch (error) {
    log.error({ error, request_id: order.requestId }, 'the findings of the guards in an answer could not be summarised')
    return []
  }
}

function toUsageRecord(served: Served, usage: TokenUsage, { columns }: Charge, { clock }: ChatDeps): UsageRecordRow {
  const { context, surface, admitted, opened, ending } = served
  return {
    request_id: context.requestId,
    tenant_id: admitted.caller.tenantId,
    api_key_id: admitted.caller.keyId,
    user_id: admitted.payer.id,
    created_at: isoTime(clock.now()),
    route: surface.path,
    streamed: admitted.stream ? 1 : 0,
    requested_model: admitted.chain.attempts[0].modelId,
    served_model: opened.attempt.modelId,
    index_used: admitted.index.name,
    outcome: ending.outcome,
    native_finish_reason: ending.nativeFinishReason,
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    tokens_estimated: usage.estimated ? 1 : 0,
    attempts: opened.attempts.length,
    latency_ms: Math.round(clock.monotonic() - admitted.evidence.startedMonotonicMs),
    first_token_ms: opened.firstTokenMs,
    billing_mode: columns.billing_mode,
    billing_period: columns.billing_period,
    cost_nanos: columns.cost_nanos,
    points: columns.points,
    price_missing: columns.price_missing,
  }
}
