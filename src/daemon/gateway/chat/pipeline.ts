import { GatewayError } from '../../../shared/errors.ts'
import { type Change, type FailoverAttempt, RECEIPTS_PATH } from '../../../shared/wire/chat.ts'
import { inputOf, type Order } from '../../metering/usage/billing.ts'
import type { Payment } from '../../metering/usage/payment.ts'
import type { GenerationOptions } from '../../models/conversation.ts'
import { type OutputLimit, outputLimit, outputLimitWithInput } from '../../models/output-limits.ts'
import type { Entitle, ProviderHead } from '../../models/provider.ts'
import type { Reply, RequestContext } from '../../platform/http/route.ts'
import { entitle } from '../../records/evidence/entitlement.ts'
import { guardAnswer } from '../../safety/guards/stream/answer-guard.ts'
import { enforcePolicy } from '../../safety/policies/enforce.ts'
import { toShownShield } from '../../safety/prompt-shield/resolve.ts'
import type { RequestLimits } from '../config.ts'
import { type Admitted, admit } from './admit.ts'
import type { Envelope } from './answer-contract.ts'
import type { Attempt } from './chain.ts'
import type { ChatDeps } from './deps.ts'
import { readAnswer } from './ending.ts'
import { beginEvidence, type Evidence, recordRefusal } from './evidence.ts'
import { type OpenAnswer, openAnswer } from './failover.ts'
import { addFailoverEvents } from './failover-events.ts'
import { type Grounded, groundCall } from './ground-call.ts'
import type { ReplaySlot } from './idempotency.ts'
import type { ChatInput } from './input.ts'
import { type Screened, screen } from './screen.ts'
import { settle } from './settle.ts'
import type { Surface } from './surface.ts'

/**
 * Runs one chat request from validated input to bill. Returns the reply, or undefined if the answer was streamed.
 * @throws GatewayError if the request is rejected; RequestAborted if the client disconnects before the first token
 */
export async function runChat(
  input: ChatInput,
  surface: Surface,
  context: RequestContext,
  deps: ChatDeps,
): Promise<Reply | undefined> {
  return deps.idempotency.once(context, surface.path, async () => {
    const evidence = beginEvidence(input, surface, context, deps.clock)
    const admitted = await admitRecorded(input, surface, context, evidence, deps)
    return (replay) => answerRecorded({ admitted, surface, context, evidence, replay }, deps)
  })
}

/** Resolves payer, models, index and policy. Malformed requests create no receipt; forbidden requests do. */
async function admitRecorded(
  input: ChatInput,
  surface: Surface,
  context: RequestContext,
  evidence: Evidence,
  deps: ChatDeps,
): Promise<Admitted> {
  try {
    const admitted = await admit(input, context.caller, deps, evidence)
    const { caller, requestId } = context
    const asked = { caller, requestId, endpoint: surface.path }
    evidence.inspectors.policy = true
    await enforcePolicy(admitted.policy, admitted.chain.attempts, asked, deps, evidence)
    return admitted
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'VALIDATION_ERROR') throw error
    throw await recordRefusal(error, evidence, context, deps)
  }
}

/** An admitted request and everything that is needed to answer it. */
type Running = {
  admitted: Admitted
  surface: Surface
  context: RequestContext
  evidence: Evidence
  /** Stores the answer for replay. Set only if the request has an Idempotency-Key. */
  replay: ReplaySlot | undefined
}

async function answerRecorded(running: Running, deps: ChatDeps): Promise<Reply | undefined> {
  const { context, evidence } = running
  const { keyId, isOperator } = context.caller
  const turn = isOperator ? undefined : deps.keyGates.enter(keyId, keyId, context.signal)
  if (turn) await turn // queued: the key has reached its limit of running chats
  context.bundleId = evidence.bundleId
  try {
    // Free the slot first, so that the next request does not wait until the rejection is recorded.
    return await answerOnce(running, deps).finally(() => {
      if (!isOperator) deps.keyGates.leave(keyId)
    })
  } catch (error) {
    throw await recordRefusal(error, evidence, context, deps)
  }
}

async function answerOnce(
  { admitted, surface, context, evidence, replay }: Running,
  deps: ChatDeps,
): Promise<Reply | undefined> {
  // A client with an Idempotency-Key will retry. So the answer is completed and billed once, even if the client
  // disconnects.
  const signal = replay ? context.shutdown : context.signal
  const { caller, requestId } = context
  const screened = await screen(admitted, surface, { caller, requestId, signal, evidence }, deps) // checks the request: DLP, PII, prompt shield
  const grounded = await groundCall(screened, deps) // adds passages and sources; none for Zero-Knowledge
  evidence.documentsRetrieved = grounded.documentsRetrieved
  const order = toOrder(requestId, screened, grounded, surface.isCompatible ? deps.limits : {})
  const payment = await deps.billing.reserve(order) // reserves the maximum cost, capped by the budget, or throws 429
  try {
    const limitOf = (attempt: Attempt) =>
      limitFor(attempt, order, deps.billing.coveredTokens(order, payment, attempt.modelId))
    const opened = await openRecorded(screened, { call: grounded.call, limitOf }, context, signal, deps) // fails over until a model answers
    const limit = limitOf(opened.attempt)
    const changed = changesOf(order.call, limit, admitted.fields)
    const envelope = toEnvelope(requestId, deps, { screened, grounded, payment, opened, changed })
    const answer = admitted.stream ? surface.streamed(envelope, context, replay !== undefined) : surface.whole(envelope)
    const guard = guardAnswer(screened, deps) // checks the answer: DLP, PII, canaries, prompt shield
    const ending = await readAnswer(opened, guard, answer, signal) // forwards the parts until the answer ends
    const served = {
      context,
      surface,
      admitted: screened,
      guard,
      order,
      payment,
      replay,
      opened,
      limit,
      answer,
      ending,
    }
    return await settle(served, deps) // commits the bill, then sends the last bytes
  } finally {
    const released = payment.release()
    if (released) await released
  }
}

/**
 * Opens the answer and records failovers. If every model fails, there is no bill, so the failovers are committed with
 * the rejection. That commit needs no claim: the failovers happened even if another daemon took over the
 * Idempotency-Key.
 */
async function openRecorded(
  { chain, caller, evidence, policy }: Screened,
  { call, limitOf }: Pick<Grounded, 'call'> & { limitOf(attempt: Attempt): AttemptLimit },
  context: RequestContext,
  signal: AbortSignal,
  deps: ChatDeps,
): Promise<OpenAnswer> {
  const attempts: FailoverAttempt[] = []
  const heads: (ProviderHead | undefined)[] = []
  evidence.attempts = attempts
  evidence.heads = heads
  const { requestId } = context
  const entitle = createEntitler({ caller, policy, evidence }, deps)
  const boundsOf = (attempt: Attempt) => {
    const limit = limitOf(attempt)
    return { maxTokens: limit.tokens, options: limit.thinks ? call.options : withoutThinking(call.options) }
  }
  try {
    return await openAnswer({ chain, call, caller, requestId, attempts, heads, boundsOf, entitle, signal }, deps)
  } catch (error) {
    evidence.withRefusal = addFailoverEvents(evidence.withRefusal, attempts, context, deps.clock.now())
    throw error
  }
}

/**
 * Creates the entitlements of a request's attempts. Stores each entitlement in the evidence at the index of its
 * attempt.
 */
function createEntitler(
  { caller, policy, evidence }: Pick<Screened, 'caller' | 'policy' | 'evidence'>,
  { clock, isAccepted }: Pick<ChatDeps, 'clock' | 'isAccepted'>,
): (attempt: Attempt, place: number) => Entitle {
  const enforced = policy.document.mode === 'enforce'
  return ({ modelId, model }, place) => {
    const terms = {
      jti: `${evidence.bundleId}/${place}`,
      keyId: caller.keyId,
      modelId,
      model,
      policyHash: policy.hash,
      enforced,
      isAccepted: () => isAccepted(caller),
    }
    return entitle(terms, clock, (entitlement) => {
      evidence.entitlements[place] = entitlement
    })
  }
}

/** The output limit of one attempt. `thinks`: whether the limit leaves room for the requested reasoning. */
type AttemptLimit = OutputLimit & { thinks: boolean }

function limitFor(attempt: Attempt, order: Order, covered: number | undefined): AttemptLimit {
  const { attempts, call, operatorLimit } = order
  const { tokens, why } = outputLimit({
    asked: call.maxTokens,
    ofModel: () => attempts.find(({ modelId }) => modelId === attempt.modelId)?.outputTokens?.(),
    operatorLimit,
    covered,
    isRequired: attempt.provider.needsMaxTokens === true,
  })
  // If the request itself sets a limit that is too low, the limit is sent unchanged, and the provider rejects it.
  const thinks = why !== 'operator' || (tokens ?? 0) > thinkingTokensOf(attempt, call)
  return { tokens, why, thinks }
}

const withoutThinking = ({ reasoningEffort: _, ...options }: GenerationOptions = {}): GenerationOptions => options

function changesOf(
  { maxTokens: asked, options }: Order['call'],
  { tokens, why, thinks }: AttemptLimit,
  fields: ChatInput['fields'],
): Change[] {
  const changes: Change[] = []
  if (tokens !== undefined && why !== undefined)
    changes.push({ field: fields?.maxTokens ?? 'max_tokens', asked: asked ?? null, used: tokens, why })
  if (!thinks)
    changes.push({
      field: fields?.thinking ?? 'reasoning_effort',
      asked: options?.reasoningEffort ?? null,
      used: null,
      why: 'operator',
    })
  return changes
}

/**
 * The minimum number of output tokens for the requested reasoning. 0 if no reasoning is requested or no minimum
 * applies.
 */
const thinkingTokensOf = ({ provider, model }: Attempt, { options = {} }: Order['call']): number => {
  const { reasoningEffort, noReasoning } = options
  const thinks = reasoningEffort !== undefined && reasoningEffort !== 'none' && !noReasoning
  return thinks ? (provider.leastThinkingTokens?.(model) ?? 0) : 0
}

function toOrder(
  requestId: string,
  { caller, payer, chain }: Admitted,
  { call }: Grounded,
  { maxTokens, outputTokens = {} }: Partial<Pick<RequestLimits, 'maxTokens' | 'outputTokens'>>,
): Order {
  const attempts = chain.attempts.map((attempt) => ({
    modelId: attempt.modelId,
    thinkingTokens: thinkingTokensOf(attempt, call),
    outputTokens: () => outputTokens[attempt.modelId] ?? outputLimitWithInput(attempt.model, () => inputOf(order)),
  }))
  const order: Order = { requestId, caller, payer, attempts, call, operatorLimit: maxTokens }
  return order
}

function toEnvelope(
  id: string,
  { clock, receipts }: Pick<ChatDeps, 'clock' | 'receipts'>,
  {
    screened,
    grounded,
    payment,
    opened,
    changed,
  }: { screened: Screened; grounded: Grounded; payment: Payment; opened: OpenAnswer; changed: readonly Change[] },
): Envelope {
  const { chain, conversationId, index, policy, shield, evidence, withheldToolResults } = screened
  const { ragEnabled, documentsRetrieved, withheldPassages, sources } = grounded
  const { attempt, attempts } = opened
  return {
    id,
    created: Math.floor(clock.now() / 1000),
    model: attempt.modelId,
    changed,
    metadata: {
      conversation_id: conversationId,
      index_used: index.name,
      smltp_policy_used: policy.canonical,
      smltp_policy_source: policy.source,
      smltp_policy_hash: policy.hash,
      prompt_shield_policy: shield ? toShownShield(shield) : null,
      ...(withheldToolResults + withheldPassages > 0 && {
        withheld: { tool_results: withheldToolResults, passages: withheldPassages },
      }),
      served_model: attempt.modelId,
      requested_model: chain.attempts[0].modelId,
      ...(chain.attempts.length > 1 && { failover: { occurred: attempt !== chain.attempts[0], attempts } }),
      ...(payment.fallback && { billing_fallback: payment.fallback }),
      smltp: {
        bundle_id: evidence.bundleId,
        ...(receipts && { receipt_url: `${RECEIPTS_PATH}/${evidence.bundleId}` }),
      },
      rag_enabled: ragEnabled,
      documents_retrieved: documentsRetrieved,
      sources,
    },
  }
}
