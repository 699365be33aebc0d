import type { Clock } from '../../shared/time.ts'
import type { FailoverAttempt } from '../../shared/wire/chat.ts'
import type { Db } from '../db/database.ts'
import type { Guards } from '../guards/guards.ts'
import type { Reply, RequestContext } from '../http/route.ts'
import type { Search } from '../knowledge/search.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Gates } from '../load/gates.ts'
import type { Log } from '../log.ts'
import type { PolicyCatalogue } from '../policies/catalogue.ts'
import { enforcePolicy } from '../policies/enforce.ts'
import { toShownShield } from '../prompt-shield/resolve.ts'
import type { ProviderRegistry } from '../providers/registry.ts'
import type { Billing, Order } from '../usage/billing.ts'
import type { Payment } from '../usage/budgets.ts'
import { type Admitted, admit } from './admit.ts'
import type { Envelope } from './answer.ts'
import { guardAnswer } from './answer-guard.ts'
import { type Failover, type OpenAnswer, openAnswer } from './complete.ts'
import { readAnswer } from './ending.ts'
import { type Grounded, groundCall } from './ground-call.ts'
import { addHops } from './hops.ts'
import type { Idempotency, ReplaySlot } from './idempotency.ts'
import type { ChatInput } from './input.ts'
import { screen } from './screen.ts'
import { settle } from './settle.ts'
import type { Surface } from './surface.ts'

export type ChatDeps = {
  db: Db
  providers: ProviderRegistry
  guards: Guards
  policies: PolicyCatalogue
  /** Of knowledge bases. */
  search: Search
  ledger: Ledger
  idempotency: Idempotency
  billing: Billing
  clock: Clock
  log: Log
  failover: Failover
  /** One gate for each key. */
  keyGates: Gates
}

/**
 * One chat request from checked input to bill. Returns the reply, or undefined when the answer was streamed.
 * @throws GatewayError for a refusal, RequestAborted when the client left before the first word.
 */
export async function runChat(
  input: ChatInput,
  surface: Surface,
  context: RequestContext,
  deps: ChatDeps,
): Promise<Reply | undefined> {
  return deps.idempotency.once(context, surface.path, async () => {
    const admitted = await admit(input, context.caller, deps) // who pays; which models, index and policy
    const { caller, requestId } = context
    await enforcePolicy(admitted.policy, admitted.chain.attempts, { caller, requestId, endpoint: surface.path }, deps)
    return (replay) => answerOnce(admitted, surface, context, deps, replay)
  })
}

/** @param replay where the answer is kept when the request carried an Idempotency-Key. */
async function answerOnce(
  admitted: Admitted,
  surface: Surface,
  context: RequestContext,
  deps: ChatDeps,
  replay: ReplaySlot | undefined,
): Promise<Reply | undefined> {
  const startedMs = deps.clock.monotonic()
  // Whoever sent an Idempotency-Key will come back for the answer, so it is brought to its end and paid for once.
  const signal = replay ? context.shutdown : context.signal
  const { keyId, isOperator } = context.caller
  const turn = isOperator ? undefined : deps.keyGates.enter(keyId, keyId, context.signal)
  if (turn) await turn // a place among the running chats of this key
  try {
    const screened = await screen(
      admitted,
      surface,
      { caller: context.caller, requestId: context.requestId, signal },
      deps,
    ) // DLP, PII and shield on what was said
    const grounded = await groundCall(screened, deps) // passages and sources, or none for Zero-Knowledge
    const order = toOrder(context.requestId, screened, grounded)
    const payment = await deps.billing.reserve(order) // the most it can cost, or 429
    try {
      const opened = await openRecorded(screened, grounded, context, signal, deps) // the first model to speak
      const envelope = toEnvelope(context.requestId, deps.clock.now(), { admitted, grounded, payment, opened })
      const answer = admitted.stream
        ? surface.streamed(envelope, context, replay !== undefined)
        : surface.whole(envelope)
      const guard = guardAnswer(screened, deps) // DLP, PII and canaries on what is answered
      const ending = await readAnswer(opened, guard, answer, signal) // passes the parts on until the answer ends
      const served = {
        context,
        surface,
        admitted: screened,
        guard,
        grounded,
        order,
        payment,
        opened,
        answer,
        ending,
        startedMs,
        replay,
      }
      return await settle(served, deps) // commit, last bytes
    } finally {
      const released = payment.release()
      if (released) await released
    }
  } finally {
    if (!isOperator) deps.keyGates.leave(keyId)
  }
}

/**
 * Without an answer there is no bill that the failovers could be committed with, so they are before the error leaves. They
 * happened, whoever has the Idempotency-Key by now, so that commit asks for no claim.
 */
async function openRecorded(
  { chain, caller }: Admitted,
  { call }: Grounded,
  context: RequestContext,
  signal: AbortSignal,
  deps: ChatDeps,
): Promise<OpenAnswer> {
  const attempts: FailoverAttempt[] = []
  try {
    return await openAnswer({ chain, call, caller, attempts, signal }, deps)
  } catch (error) {
    const records = addHops({}, attempts, context, deps.clock.now())
    if (records.events) {
      await deps.ledger.commit(records).catch((cause: unknown) => {
        // The caller's error is what the models said, with its Retry-After.
        deps.log.error(
          { error: cause, request_id: context.requestId },
          'the failovers of a request could not be stored',
        )
      })
    }
    throw error
  }
}

const toOrder = (requestId: string, { caller, payer, chain }: Admitted, { call }: Grounded): Order => ({
  requestId,
  caller,
  payer,
  attempts: chain.attempts,
  call,
})

function toEnvelope(
  id: string,
  nowMs: number,
  {
    admitted,
    grounded,
    payment,
    opened,
  }: { admitted: Admitted; grounded: Grounded; payment: Payment; opened: OpenAnswer },
): Envelope {
  const { chain, conversationId, index, policy, shield } = admitted
  const { ragEnabled, documentsRetrieved, sources } = grounded
  const { attempt, attempts } = opened
  return {
    id,
    created: Math.floor(nowMs / 1000),
    model: attempt.modelId,
    metadata: {
      conversation_id: conversationId,
      index_used: index.name,
      smltp_policy_used: policy.canonical,
      smltp_policy_source: policy.source,
      smltp_policy_hash: policy.hash,
      prompt_shield_policy: shield ? toShownShield(shield) : null,
      served_model: attempt.modelId,
      requested_model: chain.attempts[0].modelId,
      ...(chain.attempts.length > 1 && { failover: { occurred: attempt !== chain.attempts[0], attempts } }),
      ...(payment.fallback && { billing_fallback: payment.fallback }),
      rag_enabled: ragEnabled,
      documents_retrieved: documentsRetrieved,
      sources,
    },
  }
}
