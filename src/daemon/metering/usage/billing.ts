import { LRUCache } from 'lru-cache'
import { UNKNOWN_OUTPUT_TOKENS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { BillingMode } from '../../../shared/wire/billing.ts'
import type { ProviderConfig } from '../../models/config.ts'
import type { SetLimit } from '../../models/output-limits.ts'
import type { ProviderCall, TokenUsage } from '../../models/provider.ts'
import type { SpendCounterRow } from '../../platform/db/tables.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { NO_BUDGETS } from '../budgets/applied-budgets.ts'
import type { PointAllowances } from '../config.ts'
import { createBudgets } from './budgets.ts'
import { inputTokensAtMost } from './input-tokens.ts'
import type { Payer, Payment, SpendAmount } from './payment.ts'
import { periodAt } from './period.ts'
import {
  costOf,
  coveredOutput,
  createPriceList,
  dearest,
  highestCost,
  type Price,
  type PriceList,
  unknownIn,
} from './prices.ts'
import { type BudgetsDeps, limitsOf } from './spend-request.ts'

/**
 * The minimum number of output tokens that the budget must cover. Otherwise the request is rejected. `alone` applies if
 * the request could use all of the unspent budget. `shared` applies while other requests have reservations. Most of
 * these reservations are released soon.
 */
const LEAST_OUTPUT_TOKENS = { alone: 256, shared: 1_024 } as const
/** Minimum time between two log messages about the unknown price of the same model. */
const PRICE_ALARM_MS = 3_600_000

/** A request to bill, before its first model call. */
export type Order = {
  requestId: string
  /** Whether nothing is sent or billed. */
  isDryRun?: boolean
  caller: Pick<Caller, 'tenantId' | 'keyId' | 'settings'>
  payer: Payer
  /** The models of the chain, each with the tokens that the model needs for the requested reasoning. */
  attempts: readonly OrderedModel[]
  call: Pick<ProviderCall, 'system' | 'messages' | 'options' | 'maxTokens'>
  /** The limit of the operator or of the key on the output tokens of an answer. */
  limit?: SetLimit | undefined
  /** The number of answers to the request. Each has the output limit. One by default. */
  answers?: number
  /** Upper bound of the input tokens. Computed on first use, because measuring long prompts is slow. */
  inputTokensAtMost?: number
}

type OrderedModel = {
  modelId: string
  thinkingTokens?: number
  /** The model's maximum output tokens; undefined if unknown. */
  outputTokens?: () => number | undefined
}

/** The upper bound of input tokens over all models. Computed once per order. */
export function inputOf(order: Order): number {
  order.inputTokensAtMost ??= inputTokensAtMost(order.call)
  return order.inputTokensAtMost
}

/** The cost of an answer: the bill in its receipt, and the amounts for the counters of account and key. */
export type Charge = {
  cost: {
    mode: BillingMode
    /** The month in which the answer is billed, as `2026-01`. */
    period: string
    /** The price in nano-dollars, also of an answer that is billed in points. */
    nanos: number
    points: number
    /** False if an assumed price applies, because the model's price is unknown. */
    isPriceKnown: boolean
  }
  spend: readonly SpendCounterRow[]
  amount: SpendAmount
}

export type Billing = {
  /**
   * Reserves the request's maximum cost, capped by the remaining budget, before any model is called.
   * @throws COMPLETION_LIMIT_EXCEEDED, USAGE_BY_MODEL_BUDGET_EXCEEDED
   */
  reserve(order: Order): Payment | Promise<Payment>
  /**
   * Number of output tokens that the payer's budget covers with this model, for each answer. Undefined if no budget applies. Also
   * undefined if the request sets its own limit, because its full cost is then reserved.
   */
  coveredTokens(order: Order, payment: Payment, modelId: string): number | undefined
  /**
   * The cost at the price of the model that served the request. Unknown models are never billed as free; an unknown
   * price is logged.
   */
  charge(order: Order, payment: Payment, served: { modelId: string; usage: TokenUsage }): Charge
  /**
   * The points that the most expensive of these models costs, and the account's points per month. A null limit means
   * unlimited.
   */
  pointsOf(attempts: readonly { modelId: string }[], payer: Payer): { required: number; limit: number | null }
  /** Stops background work. Call it after the last request has ended. */
  close(): void
}

const ALARMS_CACHED = 1_000

/** The output tokens to reserve for a model. */
const outputAtMost = ({ call: { maxTokens }, limit }: Order, { outputTokens }: OrderedModel): number =>
  Math.min(maxTokens ?? outputTokens?.() ?? UNKNOWN_OUTPUT_TOKENS, limit?.most ?? Number.POSITIVE_INFINITY)

/** The minimum output tokens that make a call worthwhile: a short answer plus the requested reasoning. */
const outputAtLeast = (order: Order, model: OrderedModel, isShared: boolean): number =>
  Math.min((model.thinkingTokens ?? 0) + LEAST_OUTPUT_TOKENS[isShared ? 'shared' : 'alone'], outputAtMost(order, model))

/** What stays when prices and points change: the reservations, and when an unknown price was logged. */
export type BillingState = { budgets: ReturnType<typeof createBudgets>; alarmedAtMs: LRUCache<string, number> }

export const createBillingState = (deps: BudgetsDeps): BillingState => ({
  budgets: createBudgets(deps),
  alarmedAtMs: new LRUCache({ max: ALARMS_CACHED }),
})

/** Prices, points and budgets (decision 0004). */
export function createBilling(
  {
    providers,
    points = {},
    prices = createPriceList(providers),
  }: { providers: readonly ProviderConfig[]; points?: PointAllowances | undefined; prices?: PriceList },
  deps: BudgetsDeps,
  { budgets, alarmedAtMs }: BillingState = createBillingState(deps),
): Billing {
  const { clock, log } = deps

  /** Returns whether all prices of the answer are known. */
  function isPriceKnown(price: Price, modelId: string, usage: TokenUsage, requestId: string): boolean {
    const unknown = unknownIn(price, usage)
    if (unknown === undefined) return true
    const nowMs = clock.now()
    const alarm = unknown === 'model' ? modelId : `${modelId} ${unknown} ${usage.tier ?? ''}`
    if (nowMs - (alarmedAtMs.get(alarm) ?? Number.NEGATIVE_INFINITY) < PRICE_ALARM_MS) return false
    alarmedAtMs.set(alarm, nowMs)
    log.error(
      { model: modelId, request_id: requestId, ...(unknown === 'tier' && { tier: usage.tier }) },
      UNKNOWN_PRICE_MESSAGES[unknown],
    )
    return false
  }

  const priceFor = ({ call: { options } }: Pick<Order, 'call'>, modelId: string): Price =>
    dearest(prices.priceOf(modelId), askedTier(options))

  const pointsFor = (attempts: readonly { modelId: string }[]): number =>
    Math.max(...attempts.map(({ modelId }) => prices.priceOf(modelId).points))

  return {
    close: () => budgets.close(),
    pointsOf: (attempts, { license }) => ({ required: pointsFor(attempts), limit: points[license] ?? null }),
    reserve(order) {
      const { requestId, isDryRun, caller, payer, attempts, call, answers = 1 } = order
      const forAnHour = call.options?.native?.cachesForAnHour
      const nanosWith = (outputTokensOf: (model: OrderedModel) => number): number =>
        Math.max(
          ...attempts.map((model) =>
            highestCost(priceFor(order, model.modelId), inputOf(order), answers * outputTokensOf(model), forAnHour),
          ),
        )
      let nanosAtMost: number | undefined
      return budgets.reserve({
        requestId,
        isDryRun,
        tenantId: caller.tenantId,
        keyId: caller.keyId,
        payerId: payer.id,
        ...limitsOf(payer, caller.settings, points),
        points: answers * pointsFor(attempts),
        nanosAtMost() {
          nanosAtMost ??= nanosWith((model) => outputAtMost(order, model))
          return nanosAtMost
        },
        nanosAtLeast(isShared) {
          if (call.maxTokens !== undefined) return this.nanosAtMost()
          return nanosWith((model) => outputAtLeast(order, model, isShared))
        },
      })
    },
    coveredTokens(order, { coveredNanos }, modelId) {
      if (coveredNanos === undefined || order.call.maxTokens !== undefined) return undefined
      const forAnHour = order.call.options?.native?.cachesForAnHour
      const covered = coveredOutput(priceFor(order, modelId), inputOf(order), coveredNanos, forAnHour)
      return covered === undefined ? undefined : Math.floor(covered / (order.answers ?? 1))
    },
    charge({ requestId, caller, payer, answers = 1 }, { mode, period }, { modelId, usage }) {
      const price = prices.priceOf(modelId)
      const isKnown = isPriceKnown(price, modelId, usage, requestId)
      const nanos = costOf(price, usage)
      const inDollars = mode === 'usage-by-model'
      const amount = inDollars ? { nanos, points: 0 } : { nanos: 0, points: answers * price.points }
      const spentBy = (holder: SpendCounterRow['holder'], holder_id: string): SpendCounterRow => ({
        tenant_id: caller.tenantId,
        holder,
        holder_id,
        period,
        nanos: amount.nanos,
        points: amount.points,
      })
      const spend: SpendCounterRow[] = []
      if (amount.nanos > 0 || amount.points > 0) spend.push(spentBy('user', payer.id))
      if (amount.nanos > 0) {
        spend.push(spentBy('key', caller.keyId))
        for (const { id } of payer.budgets ?? NO_BUDGETS) spend.push(spentBy('budget', id))
      }
      return { amount, cost: { mode, period, nanos, points: amount.points, isPriceKnown: isKnown }, spend }
    },
  }
}

const UNKNOWN_PRICE_MESSAGES = {
  model: 'the price of this model is unknown, so an assumed price applies; set it under `prices` of its provider',
  tier: 'the price of this tier of service is unknown, so the standard price applies; set it under `prices` of its provider, in `tiers` of the model',
  audio:
    'the price of tokens of audio is unknown, so the price of text applies; set `audio` under `prices` of its provider',
  'web search':
    'the price of web searches is unknown, so they are not billed; set `web_search` under `prices` of its provider',
} as const

/** The tier of service that a request asks for. The answer decides which tier is billed. */
function askedTier(options: ProviderCall['options']): string | undefined {
  const { service_tier: tier, speed } = options?.native?.fields ?? {}
  if (speed === 'fast') return speed
  return typeof tier === 'string' ? tier : undefined
}

/** Wraps billing for free requests. Free requests are accepted regardless of the account's budget. */
export const unbilled = (billing: Billing, clock: Clock): Billing => ({
  ...billing,
  reserve: ({ caller }): Payment => ({
    mode: caller.settings.billingMode,
    fallback: undefined,
    period: periodAt(clock.now()).name,
    coveredNanos: undefined,
    reserved: undefined,
    settled() {},
    release: () => undefined,
  }),
  charge: (_order, { mode, period }) => ({
    amount: { nanos: 0, points: 0 },
    cost: { mode, period, nanos: 0, points: 0, isPriceKnown: true },
    spend: [],
  }),
})
