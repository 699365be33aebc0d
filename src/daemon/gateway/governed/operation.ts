// The contract between the runner (`governed.ts`) and an operation. Chat, embeddings and token counts are operations.
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { Order } from '../../metering/usage/billing.ts'
import type { Payment } from '../../metering/usage/payment.ts'
import type { Outcome, ProviderHead, TokenUsage } from '../../models/provider.ts'
import type { StoredResponseRow } from '../../platform/db/tables.ts'
import type { ErrorShape, Reply, RequestContext } from '../../platform/http/route.ts'
import type { RequestFacts } from '../../records/evidence/request-entry.ts'
import type { GuardIncident } from '../../safety/incidents/incident.ts'
import type { Attempt } from './chain.ts'
import type { ClientStream, KeepAlive } from './client-stream.ts'
import type { GovernedDeps } from './deps.ts'
import type { AttemptTerms, Opened } from './failover.ts'
import type { GovernedInput } from './input.ts'
import type { Screened } from './screen.ts'
import type { Stage } from './trail.ts'

/**
 * One operation: how it calls a model, and how it delivers the result. The runner does everything that operations
 * share: admission, policy, guards on the request, budget, failover, billing and the records.
 *
 * `Input` is the well-formed request. `Prepared` contains what a model call needs. `Begun` is a result that has begun.
 */
export type Operation<Input extends GovernedInput, Prepared, Begun> = {
  /** The operation's name in the evidence. */
  readonly name: RequestFacts['operation']
  /** The route in incidents and Idempotency-Keys. */
  readonly path: string
  /** The format of its errors, the same as its route's. */
  readonly errors: ErrorShape
  /** Set on the compatibility surfaces, where the operator may limit requests. */
  readonly isCompatible?: true | undefined
  /** Set if requests are free, and accepted regardless of the budget. */
  readonly isFree?: true
  /**
   * Set if its results do not show whether a model is healthy. The operation then ignores circuits and leaves them
   * unchanged.
   */
  readonly sparesBreaker?: true
  /** Set if its results can be stored in the answer cache. */
  readonly caching?: Caching<Input, Prepared, Begun>
  /**
   * Collects what a model call needs, such as passages of a knowledge base. `signal` is aborted if the result is no
   * longer needed.
   */
  prepare(
    screened: Screened<Input>,
    deps: GovernedDeps,
    signal: AbortSignal,
  ): Stage<Prepared> | Promise<Stage<Prepared>>
  /** Returns the order that determines the maximum cost of the request. */
  orderOf(screened: Screened<Input>, prepared: Prepared, requestId: string, deps: GovernedDeps): Order
  /**
   * Calls one model. Resolves at the commit point. After this point, no other model is tried.
   * @throws ProviderError if another model may be tried
   */
  begin(running: Running<Input, Prepared>, attempt: Attempt, terms: AttemptTerms, deps: GovernedDeps): Promise<Begun>
  /** What clients of a streamed result receive while they wait for it. */
  readonly keepAlive?: KeepAlive
  /**
   * Renders the end of a stream whose client received keep-alives before the request failed. Every operation with
   * keep-alives has it.
   */
  refuse?(running: Running<Input, Prepared>, stream: ClientStream, error: unknown, deps: GovernedDeps): Refused
  /** Reads the result to its end and renders it. Never throws: broken results are billed and recorded too. */
  deliver(running: Running<Input, Prepared>, opened: Opened<Begun>, deps: GovernedDeps): Promise<Delivery>
}

/** How the answer cache stores the results of an operation. */
export type Caching<Input extends GovernedInput, Prepared, Begun> = {
  /**
   * Returns everything in the request that can change the model's result, as JSON values in a fixed order. The runner
   * adds tenant, policy, route and model. Undefined if the result must not be stored.
   */
  keyOf(running: Running<Input, Prepared>, attempt: Attempt, deps: GovernedDeps): unknown
  /** Records a result while it is read. A result with more than `maxBytes` is not recorded. */
  record(begun: Begun, maxBytes: number): Recording<Begun>
  /** Begins a recorded result again, as if the model had just returned it. */
  replay(running: Running<Input, Prepared>, attempt: Attempt, recorded: string, deps: GovernedDeps): Begun
}

/** A result that is recorded. Read `begun` instead of the original. */
export type Recording<Begun> = {
  begun: Begun
  /**
   * Returns the recorded result as JSON once it was read to its end. Undefined if it is too large.
   * @param usage the billed tokens, which replace the provider's counts
   */
  complete(usage: TokenUsage): string | undefined
}

/** A screened request with its reserved budget. */
export type Running<Input extends GovernedInput, Prepared> = {
  readonly context: RequestContext
  readonly screened: Screened<Input>
  readonly prepared: Prepared
  readonly bundleId: string
  readonly order: Order
  readonly payment: Payment
  /** Aborted if the result is no longer needed. */
  readonly signal: AbortSignal
  /** Whether the response is stored for a replay. */
  readonly keeps: boolean
  /** The stream to the client. Undefined if the result is not streamed. */
  readonly stream: ClientStream | undefined
}

/** The response of a request that failed after the head of its stream was sent. */
export type Refused = {
  readonly status: number
  readonly sha256: string | null
  /** Sends the last bytes. Call it after the failure is recorded. */
  send(): void
}

/** Everything in a request that contains text of the caller, as received and as sent. Names of models are excluded. */
export function textsOf<Input extends GovernedInput>({ screened, prepared }: Running<Input, unknown>): unknown[] {
  const { chain, policy, ...received } = screened.input
  return [received, screened.conversation, screened.options, prepared]
}

/** The end of a result, complete or not. Its records are not durable yet, and its last bytes are not sent. */
export type Delivery = {
  readonly outcome: Outcome
  readonly usage: TokenUsage
  /** The findings of the guards in the result. */
  readonly incidents: readonly GuardIncident[]
  /** Set if the result is incomplete. */
  readonly broken: Broken | undefined
  /** The response as the client receives it. `sha256` is null if no byte was written. */
  readonly response: Rendered & { status: number; sha256: string | null }
  /** Set if the answer is kept for later requests. It becomes durable together with the request's entry. */
  readonly stored?: StoredResponseRow | undefined
  /** Sends the last bytes. @throws the error of a broken result if no byte of the result was sent */
  send(): Reply | undefined
  /** Called if the records could not be stored. If a stream has begun, ends it with an error. */
  fail(error: unknown): void
}

/** Why a result is incomplete. */
export type Broken = {
  /** The error for the client, and for requests that wait for the replay. */
  readonly refusal: unknown
  /** True if a guard withheld the result. The rejection is then stored for replays. */
  readonly isBlocked: boolean
  /** The attempts, with the serving attempt marked as failed. Undefined if the model did not fail. */
  readonly attempts?: readonly FailoverAttempt[] | undefined
  /** The heads of the attempts' responses, with the provider's message about the failure. */
  readonly heads?: readonly (ProviderHead | undefined)[] | undefined
}

type Rendered = { readonly contentType: string; readonly body: string }
