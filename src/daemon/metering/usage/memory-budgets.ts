import type { BillingFallback, BillingMode } from '../../../shared/wire/billing.ts'
import { findSpend } from '../../platform/db/spend-counters.ts'
import type { SpendCounterRow } from '../../platform/db/tables.ts'
import type { Payment, SpendAmount } from './payment.ts'
import { type Period, periodAt } from './period.ts'
import {
  type Budgets,
  type BudgetsDeps,
  fallbackOf,
  hasBudget,
  modeFor,
  nanosFor,
  refusalOf,
  type SpendRequest,
} from './spend-request.ts'

/**
 * Maximum number of accounts or keys in memory. Above this number, entries without a running request are evicted from
 * memory, but remain in the store.
 */
const ACCOUNTS_IN_MEMORY = 20_000

/**
 * Budgets for the only daemon of a store. The amounts in memory are authoritative, so reserving is synchronous and
 * exact. Unlimited requests are also counted, so that the amounts in memory and in the store stay equal. Only the first
 * request of an account or key in a month waits for the store.
 */
export function createMemoryBudgets({
  db,
  clock,
  accountsInMemory = ACCOUNTS_IN_MEMORY,
  onSpent,
  onRefused,
}: Omit<BudgetsDeps, 'log'>): Budgets {
  const accounts: Record<SpendCounterRow['holder'], Map<string, Account>> = {
    user: new Map(),
    key: new Map(),
    budget: new Map(),
  }
  const loading = new Map<string, Promise<Account>>()

  const known = (holder: SpendCounterRow['holder'], id: string, period: Period) =>
    accounts[holder].get(accountName(id, period))

  function load(holder: SpendCounterRow['holder'], tenantId: string, id: string, period: Period): Promise<Account> {
    const name = `${holder} ${accountName(id, period)}`
    const underWay = loading.get(name)
    if (underWay) return underWay
    const loaded = findSpend(db, { tenant_id: tenantId, holder, holder_id: id, period: period.name })
      .then((row) => {
        if (accounts[holder].size >= accountsInMemory) forgetIdle(accounts[holder])
        const account = new Account(row)
        accounts[holder].set(accountName(id, period), account)
        return account
      })
      .finally(() => loading.delete(name))
    loading.set(name, loaded)
    return loaded
  }

  function reserveFrom(request: SpendRequest, { user, key, budgets }: Accounts, period: Period): Payment {
    const states = budgets.length === 0 ? NONE : budgets.map(({ nanos }) => nanos)
    const standing = { points: user.points, userNanos: user.nanos, keyNanos: key.nanos, budgets: states }
    const mode = modeFor(request, standing)
    if (mode === undefined) {
      onRefused?.(request, period.name)
      throw refusalOf(request, standing, period, clock.now())
    }
    // Reserves the amount even if no limit is set, because a limit may be set while the request runs.
    const nanos = mode === 'usage-by-model' ? nanosFor(request, standing) : 0
    return new MemoryPayment(request, { mode, nanos }, { user, key, budgets }, onSpent)
  }

  function reserve(request: SpendRequest): Payment | Promise<Payment> {
    const { tenantId, payerId, keyId } = request
    const period = periodAt(clock.now())
    const user = known('user', payerId, period)
    const key = known('key', keyId, period)
    const budgets = request.budgets.length === 0 ? NONE : request.budgets.map(({ id }) => known('budget', id, period))
    if (user && key && areKnown(budgets)) return reserveFrom(request, { user, key, budgets }, period)
    const loads = [
      user ?? load('user', tenantId, payerId, period),
      key ?? load('key', tenantId, keyId, period),
      ...request.budgets.map(({ id }, at) => budgets[at] ?? load('budget', tenantId, id, period)),
    ]
    // Starts again after loading: while the account was loading, the key may have been evicted, or vice versa.
    return Promise.all(loads).then(() => reserve(request))
  }

  return { reserve, close: () => {} }
}

const NONE: readonly never[] = []

/** The accounts of a request: of its payer, its key and its budgets. */
type Accounts = { user: Account; key: Account; budgets: readonly Account[] }

const areKnown = (accounts: readonly (Account | undefined)[]): accounts is readonly Account[] =>
  accounts.every((account) => account !== undefined)

// The name includes the month: a load that ends after the month has changed must not overwrite the new month's account.
const accountName = (id: string, { name }: Period) => `${id} ${name}`

/** Evicts idle accounts. No data is lost: their amounts are in the store, and no running request refers to them. */
function forgetIdle(accounts: Map<string, Account>): void {
  for (const [id, account] of accounts) if (account.running === 0) accounts.delete(id)
}

/** The amounts that one account or key has spent and reserved in one month. */
class Account {
  readonly period: string
  readonly points = { spent: 0, reserved: 0 }
  readonly nanos = { spent: 0, reserved: 0 }
  /** Number of requests whose bill might not be in the store yet. */
  running = 0

  constructor({ period, points, nanos }: SpendCounterRow) {
    this.period = period
    this.points.spent = points
    this.nanos.spent = nanos
  }
}

class MemoryPayment implements Payment {
  readonly mode: BillingMode
  readonly fallback: BillingFallback | undefined
  readonly period: string
  readonly coveredNanos: number | undefined
  readonly reserved = undefined
  readonly #request: SpendRequest
  readonly #user: Account
  readonly #key: Account
  readonly #budgets: readonly Account[]
  readonly #onSpent: BudgetsDeps['onSpent']
  readonly #points: number
  readonly #nanos: number
  #isOpen = true

  constructor(
    request: SpendRequest,
    { mode, nanos }: { mode: BillingMode; nanos: number },
    { user, key, budgets }: Accounts,
    onSpent: BudgetsDeps['onSpent'],
  ) {
    this.mode = mode
    this.fallback = fallbackOf(request.mode, mode)
    this.period = user.period
    this.#request = request
    this.#user = user
    this.#key = key
    this.#budgets = budgets
    this.#onSpent = onSpent
    this.coveredNanos = mode === 'usage-by-model' && hasBudget(request) ? nanos : undefined
    this.#points = mode === 'user-completions' ? request.points : 0
    this.#nanos = nanos
    this.#add(1)
  }

  settled({ amount: { nanos, points } }: { amount: SpendAmount }): void {
    this.#user.points.spent += points
    this.#user.nanos.spent += nanos
    this.#key.nanos.spent += nanos
    for (const budget of this.#budgets) budget.nanos.spent += nanos
    if (nanos > 0 && hasBudget(this.#request)) this.#onSpent?.(this.#request, this.period, nanos)
  }

  release(): undefined {
    if (this.#isOpen) this.#add(-1)
    this.#isOpen = false
  }

  #add(sign: 1 | -1): void {
    this.#user.running += sign
    this.#key.running += sign
    for (const budget of this.#budgets) {
      budget.running += sign
      budget.nanos.reserved += sign * this.#nanos
    }
    this.#user.points.reserved += sign * this.#points
    this.#user.nanos.reserved += sign * this.#nanos
    this.#key.nanos.reserved += sign * this.#nanos
  }
}
