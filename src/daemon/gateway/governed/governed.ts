// Runs every governed operation, from a well-formed request to its last byte. Read `run` from top to bottom.
import { GatewayError } from '../../../shared/errors.ts'
import { type Billing, type Charge, type Order, unbilled } from '../../metering/usage/billing.ts'
import type { Payment } from '../../metering/usage/payment.ts'
import { NO_BREAKER } from '../../models/breaker.ts'
import { unchangedCoolDowns } from '../../models/cool-down.ts'
import type { Reply, RequestContext } from '../../platform/http/route.ts'
import { entitle } from '../../records/evidence/entitlement.ts'
import { type IncidentOrigin, incidentRecords } from '../../safety/incidents/incident.ts'
import { enforcePolicy } from '../../safety/policies/enforce.ts'
import { type Admitted, admit } from './admit.ts'
import { type CacheTurn, cacheRequestOf, cacheTurnOf, isFromCache } from './cache-turn.ts'
import { modelsOf } from './chain.ts'
import { ClientStream, type KeepAlive } from './client-stream.ts'
import type { GovernedDeps } from './deps.ts'
import { type ChainRun, type Failover, type FailoverDeps, type Opened, runChain } from './failover.ts'
import { finish } from './finish.ts'
import type { ReplaySlot } from './idempotency.ts'
import type { GovernedInput } from './input.ts'
import { type Broken, type Delivery, type Operation, type Refused, type Running, textsOf } from './operation.ts'
import { isDenial, isOverloadOnly } from './refusal.ts'
import { requireWithin } from './request-limits.ts'
import { screen } from './screen.ts'
import { tagOf } from './tag.ts'
import { beginTrail, type Stage, type Trail, withFacts } from './trail.ts'

/**
 * Runs one request of an operation. Returns the reply, or undefined if the result was streamed. An admitted request
 * leaves exactly one entry in the log, unless an overloaded gateway rejects it. All its records become durable in one
 * commit (`finish`).
 * @throws GatewayError if the request is rejected; RequestAborted if the client disconnects before the first token; the
 * ledger's error if the commit failed
 */
export function governed<Input extends GovernedInput, Prepared, Begun>(
  operation: Operation<Input, Prepared, Begun>,
  input: Input,
  context: RequestContext,
  deps: GovernedDeps,
): Promise<Reply | undefined> {
  // An invalid header is rejected before the request leaves an entry.
  if (operation.caching) cacheRequestOf(context.request.headers)
  const tag = tagOf(context.request.headers, context.body)
  return deps.idempotency.once(context, operation.path, async () => {
    // A model is called only if its answer can be recorded.
    deps.ledger.requireWritable()
    requireWithin(input, operation.isCompatible ? deps.limits : {}, context.caller.settings.limits)
    const { chain, stream } = input
    const names = { requestedModel: chain.models?.[0]?.model ?? chain.model ?? null, streamed: stream, tag }
    const begun = beginTrail({ operation: operation.name, errors: operation.errors }, names, context, deps.clock)
    const { trail, admitted } = await admitRecorded(operation, input, begun, context, deps)
    return (replay) => answer(operation, { input, admitted, trail, context, replay }, deps)
  })
}

/** Malformed requests leave no entry; forbidden requests do. */
async function admitRecorded(
  operation: { path: string },
  input: GovernedInput,
  begun: Trail,
  context: RequestContext,
  deps: GovernedDeps,
): Promise<{ trail: Trail; admitted: Admitted }> {
  const { caller, requestId } = context
  const stage = await admit(input, { caller, tag: begun.tag }, deps)
  const trail = withFacts(begun, stage.facts)
  if (stage.refusal) {
    const { error } = stage.refusal
    if (error instanceof GatewayError && error.code === 'VALIDATION_ERROR') throw error
    throw await refuse(trail, error, context, deps)
  }
  const admitted = stage.value
  const checked = { caller, requestId, endpoint: operation.path }
  const enforced = enforcePolicy(admitted.policy, modelsOf(admitted.chain), checked, deps.clock.now(), input.uses)
  const checkedTrail = withFacts(trail, {
    inspectors: { ...trail.inspectors, policy: true },
    incidents: enforced.incidents,
    found: enforced.records,
  })
  if (enforced.refusal) throw await refuse(checkedTrail, enforced.refusal, context, deps)
  return { trail: checkedTrail, admitted }
}

/** An admitted request. */
type AdmittedRequest<Input> = {
  input: Input
  admitted: Admitted
  trail: Trail
  context: RequestContext
  /** Set if the request has an Idempotency-Key: stores the response for replays. */
  replay: ReplaySlot | undefined
}

/** Runs an admitted request in a slot of its key and of its tenant. */
async function answer<Input extends GovernedInput, Prepared, Begun>(
  operation: Operation<Input, Prepared, Begun>,
  request: AdmittedRequest<Input>,
  deps: GovernedDeps,
): Promise<Reply | undefined> {
  const { context, trail } = request
  try {
    const turn = deps.callerGate.enter(context.caller, context.signal)
    if (turn) await turn // queued: the key or its tenant has reached its limit of running requests
  } catch (error) {
    throw trail.incidents.length === 0 ? error : await refuse(trail, error, context, deps)
  }
  // A stream's head contains the entry's id before the entry exists.
  context.bundleId = trail.bundleId
  const produced = await produce(operation, request, deps)
  try {
    if (produced.result) return await settle(operation, produced, produced.result, request, deps)
  } finally {
    // Runs before the rejection is recorded, so that the next request does not wait for that commit.
    await produced.payment?.release()
    produced.cacheTurn?.end()
    deps.callerGate.leave(context.caller)
  }
  throw await refuse(produced.trail, produced.error, context, deps, produced.refused)
}

/** A request that has ended: with a result, or with the error that prevented it. Its records are not durable yet. */
type Produced = {
  trail: Trail
  payment: Payment | undefined
  /** Undefined if the request does not ask for the answer cache. */
  cacheTurn: CacheTurn<unknown> | undefined
  result?: { opened: Opened<unknown>; delivery: Delivery; order: Order; payment: Payment; origin: IncidentOrigin }
  error?: unknown
  /** Set if the client has already received the head of its stream. */
  refused?: Refused | undefined
}

/**
 * Screens the request, reserves its budget, and gets its result from the first model that returns one. Never throws.
 */
async function produce<Input extends GovernedInput, Prepared, Begun>(
  operation: Operation<Input, Prepared, Begun>,
  { input, admitted, context, replay, trail: admittedTrail }: AdmittedRequest<Input>,
  deps: GovernedDeps,
): Promise<Produced> {
  let trail = admittedTrail
  let payment: Payment | undefined
  let opened: Opened<Begun> | undefined
  let running: Running<Input, Prepared> | undefined
  let cacheTurn: CacheTurn<Begun> | undefined
  const take = <T>(stage: Stage<T>): T => {
    trail = withFacts(trail, stage.facts)
    if (stage.refusal) throw stage.refusal.error
    return stage.value as T
  }
  // A client with an Idempotency-Key is expected to retry. The result is therefore completed and billed once, even if
  // the client disconnects.
  const signal = replay ? context.shutdown : context.signal
  const { requestId } = context
  try {
    const screened = take(await screen(input, admitted, { requestId, path: operation.path, signal }, deps)) // DLP, PII and prompt shield on the request
    const prepared = take(await operation.prepare(screened, deps, signal)) // passages and sources, if the operation has them
    const order = operation.orderOf(screened, prepared, requestId, deps)
    payment = await billingOf(operation, deps).reserve(order) // reserves the maximum cost, capped by the budget, or throws 429
    const { bundleId } = trail
    const keeps = replay !== undefined
    const stream = input.stream ? openStream(operation, context, keeps, deps) : undefined
    const started = { context, screened, prepared, bundleId, order, payment, signal, keeps, stream }
    running = started
    const callModel = () => runChain(chainRunOf(operation, started, deps), failoverOf(operation, deps)) // fails over until a model begins
    cacheTurn = cacheTurnOf(operation, started, deps) // undefined unless the request asks for the answer cache
    opened = take(await (cacheTurn ? cacheTurn.open(callModel) : callModel()))
    const delivery = await operation.deliver(running, opened, deps) // forwards the result until it ends
    return { trail, payment, cacheTurn, result: { opened, delivery, order, payment, origin: screened.origin } }
  } catch (error) {
    opened?.close(error)
    return { trail, payment, cacheTurn, error, refused: running && refusedOf(operation, running, error, deps) }
  }
}

const openStream = (
  { keepAlive }: { keepAlive?: KeepAlive },
  context: RequestContext,
  keep: boolean,
  { clock, limits }: GovernedDeps,
): ClientStream | undefined =>
  keepAlive && new ClientStream(context, { clock, keep, keepAlive, everyMs: limits.keepAliveMs })

/** Ends the stream of a failed request. Returns undefined if nothing of it was sent. */
function refusedOf<Input extends GovernedInput, Prepared, Begun>(
  operation: Operation<Input, Prepared, Begun>,
  running: Running<Input, Prepared>,
  error: unknown,
  deps: GovernedDeps,
): Refused | undefined {
  const { stream } = running
  stream?.stop()
  return stream?.isOpen ? operation.refuse?.(running, stream, error, deps) : undefined
}

const failoverOf = ({ sparesBreaker }: { sparesBreaker?: true }, deps: GovernedDeps): FailoverDeps =>
  sparesBreaker ? { ...deps, failover: withoutTraces(deps.failover) } : deps

const withoutTraces = (failover: Failover): Failover => ({
  ...failover,
  breaker: NO_BREAKER,
  coolDowns: unchangedCoolDowns(failover.coolDowns),
})

const billingOf = ({ isFree }: { isFree?: true }, { billing, clock }: GovernedDeps): Billing =>
  isFree ? unbilled(billing, clock) : billing

/** Every call to a model needs an entitlement for its exact body. The receipt lists the entitlements. */
function chainRunOf<Input extends GovernedInput, Prepared, Begun>(
  operation: Operation<Input, Prepared, Begun>,
  running: Running<Input, Prepared>,
  deps: GovernedDeps,
): ChainRun<Begun> {
  const { context, screened, bundleId, signal } = running
  const { caller, policy, chain } = screened
  const { trace } = context
  const enforced = policy.document.mode === 'enforce'
  return {
    chain,
    caller,
    requestId: context.requestId,
    operation: operation.name,
    trace,
    signal,
    begin: (attempt, terms) => operation.begin(running, attempt, terms, deps),
    clean: (said) => deps.cleanMessage(said, textsOf(running)),
    entitle({ modelId, model }, at, created) {
      const terms = {
        jti: `${bundleId}/${at}`,
        keyId: caller.keyId,
        modelId,
        model,
        policyHash: policy.hash,
        enforced,
        isAccepted: () => deps.isAccepted(caller),
      }
      return entitle(terms, deps.clock, created)
    },
  }
}

/** An answer from the cache is free: its model call was billed when the answer was created. */
const FREE = { isFree: true } as const

const NOT_BROKEN: Partial<Pick<Broken, 'attempts' | 'heads'>> = {}

/**
 * Commits the bill and all other records, then sends the last bytes. All generated output is billed, even if the result
 * broke off or the client disconnected. A complete response is stored for replay. The rejection of a blocked result is
 * also stored; otherwise a retry would pay for the model again.
 * @throws the failure of the result if no byte was sent; the ledger's error if the commit failed
 */
async function settle(
  operation: { isFree?: true },
  { trail, cacheTurn }: Pick<Produced, 'trail' | 'cacheTurn'>,
  { opened, delivery, order, payment, origin }: NonNullable<Produced['result']>,
  { context, replay }: Pick<AdmittedRequest<unknown>, 'context' | 'replay'>,
  deps: GovernedDeps,
): Promise<Reply | undefined> {
  const { modelId } = opened.attempt
  const { usage, incidents, broken } = delivery
  let charge: Charge
  try {
    const billing = billingOf(isFromCache(opened) ? FREE : operation, deps)
    charge = billing.charge(order, payment, { modelId, usage })
    const found =
      incidents.length > 0 ? [incidentRecords(incidents, { ...origin, model: modelId }, deps.clock.now())] : []
    const { attempts = trail.attempts, heads = trail.heads } = broken ?? NOT_BROKEN
    const ended = withFacts(trail, { incidents, found, attempts, heads })
    const { firstTokenMs } = opened
    const { reserved } = payment
    const cacheEntry = cacheTurn && (await cacheTurn.toRow(delivery))
    await finish(
      ended,
      { kind: 'delivered', delivery, model: modelId, firstTokenMs, charge, reserved, replay, cacheEntry },
      context,
      deps,
    )
    cacheTurn?.committed()
  } catch (error) {
    context.bundleId = undefined
    delivery.fail(error)
    throw error
  }
  payment.settled(charge)
  if (broken && !broken.isBlocked) replay?.broke(broken.refusal)
  return delivery.send()
}

/**
 * Makes a rejection or failure durable before the caller learns of it. Stores nothing if an overloaded gateway rejected
 * the request before any model call or guard finding, and nothing was sent.
 * @param refused the end of the client's stream, if its head was sent
 * @returns the error for the caller: `error`, or the reason why a denial could not be recorded
 */
async function refuse(
  trail: Trail,
  error: unknown,
  context: RequestContext,
  deps: GovernedDeps,
  refused?: Refused,
): Promise<unknown> {
  // The head of a stream names the entry, so the entry must then exist.
  if (isOverloadOnly(error, trail) && !refused) {
    context.bundleId = undefined
    return error
  }
  try {
    await finish(trail, { kind: 'refused', error, refused }, context, deps)
    return error
  } catch (cause) {
    if (isDenial(error)) return cause
    // The caller still gets the models' error, including its Retry-After.
    const facts = { error: cause, request_id: trail.requestId }
    deps.log.error(facts, 'the evidence of a failed request could not be stored')
    return error
  } finally {
    refused?.send()
  }
}
