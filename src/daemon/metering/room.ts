// The metering module: rate limits, budgets and licences. Limits are checked before a model call, and usage is recorded
// after the call.
import type { Clock } from '../../shared/time.ts'
import type { License } from '../../shared/wire/users.ts'
import type { ProviderConfig } from '../models/config.ts'
import type { Db } from '../platform/db/db.ts'
import { engineOf } from '../platform/db/engine.ts'
import { deleteExpiredReservations } from '../platform/db/spend-counters.ts'
import type { Route } from '../platform/http/route.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { Log } from '../platform/log.ts'
import type { ChangeDeps } from '../records/audit/change.ts'
import type { Ledger } from '../records/ledger/ledger.ts'
import { type AppliedBudgets, createAppliedBudgets } from './budgets/applied-budgets.ts'
import { budgetRoutes } from './budgets/routes.ts'
import type { LicensePools, PointAllowances } from './config.ts'
import { requireFreeLicense } from './licenses/pool.ts'
import { licenseRoutes } from './licenses/routes.ts'
import { createRateLimiter } from './rate-limits/limiter.ts'
import { purgeCounters } from './rate-limits/purge.ts'
import type { RateLimiter } from './rate-limits/rate-limiter.ts'
import { type Billing, createBilling, createBillingState } from './usage/billing.ts'
import { createPriceList, type PriceList } from './usage/prices.ts'
import { createThresholds } from './usage/thresholds.ts'

export type MeteringRoom = {
  limiter: RateLimiter
  /** The budgets of groups, tags and tenants. */
  budgets: AppliedBudgets
  /** Returns prices, billing and routes under another configuration. All share the reservations. */
  prepare(config: MeteringConfig): PreparedMetering
  /** See `requireFreeLicense` of licenses/pool.ts. */
  requireFreeLicense(tx: Db, tenantId: string, license: License): Promise<void>
  routes(access: ChangeDeps): Route[]
  jobs: Job[]
  close(): Promise<void>
}

export type PreparedMetering = {
  billing: Billing
  prices: PriceList
  routes: Route[]
  /** Makes this configuration the current one. */
  use(): void
}

/** Configuration of providers (which includes prices), points and licences. */
export type MeteringConfig = {
  providers: readonly ProviderConfig[]
  points?: PointAllowances | undefined
  licenses: LicensePools
}

/** Opens the module with the licences of `config`. */
export function openMetering(
  config: Pick<MeteringConfig, 'licenses'>,
  deps: { db: Db; ledger: Ledger; clock: Clock; log: Log; onEvents(): void },
): MeteringRoom {
  const { db, clock, log } = deps
  const budgets = createAppliedBudgets({ db, clock })
  const thresholds = createThresholds({ db, clock, log, announceEvents: deps.onEvents })
  const state = createBillingState({ db, clock, log, onSpent: thresholds.spent, onRefused: thresholds.refused })
  let { licenses } = config
  const jobs = [
    { name: 'purge-counters', cron: '50 3 * * *', run: () => purgeCounters({ db, clock }) },
    { name: 'check-budgets', cron: '5 * * * *', run: thresholds.run },
  ]
  // If a daemon is killed, its reservations remain in the shared store. This job deletes expired reservations.
  const purgeReservations = () => deleteExpiredReservations(db)
  if (engineOf(db).name === 'postgres')
    jobs.push({ name: 'purge-reservations', cron: '*/10 * * * *', run: purgeReservations })
  return {
    limiter: createRateLimiter(deps),
    prepare(next) {
      const prices = createPriceList(next.providers)
      return {
        prices,
        billing: createBilling({ ...next, prices }, { db, clock, log }, state),
        routes: licenseRoutes({ db, licenses: next.licenses }),
        use() {
          licenses = next.licenses
        },
      }
    },
    requireFreeLicense: (tx, tenantId, license) => requireFreeLicense(tx, tenantId, license, licenses),
    budgets,
    routes: (access) => budgetRoutes(access),
    jobs,
    async close() {
      state.budgets.close()
      await thresholds.close()
    },
  }
}
