import { isoTime } from '../../shared/time.ts'
import type { UsageRecordRow } from '../db/tables.ts'
import { RequestAborted } from '../http/request-aborted.ts'
import type { Reply, RequestContext } from '../http/route.ts'
import { textOf } from '../providers/conversation.ts'
import type { TokenUsage } from '../providers/provider.ts'
import { countTokens } from '../usage/tokens.ts'
import type { Admitted } from './admit.ts'
import type { Answer } from './answer.ts'
import type { OpenAnswer } from './complete.ts'
import { type Ending, finishOf, toErrorFrame, toRefusal } from './ending.ts'
import type { Grounded } from './ground-call.ts'
import { addHops } from './hops.ts'
import type { ReplaySlot } from './idempotency.ts'
import type { ChatDeps } from './pipeline.ts'
import type { Surface } from './surface.ts'

type Served = {
  context: RequestContext
  surface: Surface
  admitted: Admitted
  grounded: Grounded
  opened: OpenAnswer
  answer: Answer
  ending: Ending
  startedMs: number
  replay: ReplaySlot | undefined
}

/**
 * One durable commit, and only then the last bytes to the client. Whatever was generated is billed, also when the answer
 * broke or the client left; only a good answer is kept for replay.
 * @throws what broke the answer, when nothing of it has left; the ledger's error when the commit failed.
 */
export async function settle(served: Served, deps: ChatDeps): Promise<Reply | undefined> {
  const { admitted, grounded, opened, answer, ending, replay } = served
  const usage = ending.usage ?? estimate(grounded, ending)
  const record = toUsageRecord(served, usage, deps)
  // The counters of the key need no commit of their own.
  const counters = served.context.takeCounters()
  const bill = addHops({ usage: record, counters }, opened.attempts, served.context, deps.clock.now())
  const finish = finishOf(ending.outcome)
  if (finish !== undefined) {
    const kept = answer.close(finish, usage)
    try {
      await deps.ledger.commit(replay ? { ...bill, idempotency: replay.toRow(record.request_id, kept) } : bill)
    } catch (error) {
      answer.fail(toErrorFrame(error))
      throw error
    }
    return answer.send()
  }
  if (!(ending.failure instanceof RequestAborted)) {
    deps.log.warn(
      { request_id: record.request_id, model: record.served_model, error: ending.failure },
      'answer broke off',
    )
  }
  await deps.ledger.commit(bill)
  const refusal = toRefusal(ending.failure, opened)
  replay?.broke(refusal)
  answer.fail(toErrorFrame(ending.failure))
  if (admitted.stream) return undefined
  throw refusal
}

/** Our own count, for a provider that gave none: never free, and marked as an estimate. */
function estimate({ call }: Grounded, { generated }: Ending): TokenUsage {
  let inputTokens = countTokens(call.system)
  for (const { content } of call.messages) inputTokens += countTokens(textOf(content))
  return {
    inputTokens,
    outputTokens: countTokens(generated),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    estimated: true,
  }
}

function toUsageRecord(served: Served, usage: TokenUsage, { clock }: ChatDeps): UsageRecordRow {
  const { context, surface, admitted, opened, ending, startedMs } = served
  return {
    request_id: context.requestId,
    tenant_id: admitted.caller.tenantId,
    api_key_id: admitted.caller.keyId,
    user_id: admitted.payerId,
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
    latency_ms: Math.round(clock.monotonic() - startedMs),
    first_token_ms: opened.firstTokenMs,
  }
}
