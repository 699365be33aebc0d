// The resources of governed operations. The gateway module provides these resources.
import type { Clock } from '../../../shared/time.ts'
import type { Authenticator } from '../../identity/keys/authenticate.ts'
import type { ReadText } from '../../knowledge/ingest/read-text.ts'
import type { Search } from '../../knowledge/search/search.ts'
import type { AppliedBudgets } from '../../metering/budgets/applied-budgets.ts'
import type { Billing } from '../../metering/usage/billing.ts'
import type { ModelNames } from '../../models/names.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Log } from '../../platform/log.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import type { PolicyCatalogue } from '../../safety/policies/policies.ts'
import type { AnswerCache } from '../cache/answer-cache.ts'
import type { RequestLimits } from '../config.ts'
import type { CallerGate } from './caller-gate.ts'
import type { Failover } from './failover.ts'
import type { Idempotency } from './idempotency.ts'
import type { CleanMessage } from './provider-message.ts'

export type GovernedDeps = {
  db: Db
  providers: ProviderRegistry
  /** What the model of a request stands for. */
  names: ModelNames
  guards: Guards
  policies: PolicyCatalogue
  /** Searches knowledge bases. */
  search: Search
  /** Reads the text of files, for the guards. */
  readText: ReadText
  ledger: Ledger
  idempotency: Idempotency
  billing: Billing
  /** The budgets of groups, tags and tenants. */
  budgets: Pick<AppliedBudgets, 'of'>
  /**
   * Whether a caller's key is still valid. Uses the authenticator's cache, so the result may be as old as a cache
   * entry.
   */
  isAccepted: Authenticator['isAccepted']
  /** Whether receipts are served. If they are served, answers contain the URL of their receipt. */
  receipts: boolean
  clock: Clock
  log: Log
  failover: Failover
  /** Undefined if the operator did not enable the answer cache. */
  cache: AnswerCache | undefined
  /** Cleans the messages of providers for administrators. */
  cleanMessage: CleanMessage
  /** Limits the requests that run simultaneously, per key and per tenant. */
  callerGate: CallerGate
  /** The limits of the compatibility surfaces. */
  limits: RequestLimits
}
