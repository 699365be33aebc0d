// The gateway module: requests to models on every surface, and the routes that describe models and usage.
import { SAME_MODEL_RETRIES } from '../../shared/spec-limits.ts'
import type { Clock } from '../../shared/time.ts'
import type { PointAllowances } from '../metering/config.ts'
import type { RateLimiter } from '../metering/rate-limits/rate-limiter.ts'
import type { PriceList } from '../metering/usage/prices.ts'
import { createBreaker, type OutageReports } from '../models/breaker.ts'
import type { ModelName } from '../models/config.ts'
import { createCoolDowns } from '../models/cool-down.ts'
import { type CredentialConfig, secretsOf } from '../models/credentials.ts'
import { createModelNames } from '../models/names.ts'
import { createGates } from '../platform/concurrency/gates.ts'
import type { Route } from '../platform/http/route.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { MasterKey } from '../platform/secrets/seal.ts'
import type { SealedColumn } from '../platform/secrets/sealed-column.ts'
import type { ChangeDeps } from '../records/audit/change.ts'
import { CACHED_ANSWER_COLUMN, createAnswerCache, purgeCache } from './cache/answer-cache.ts'
import { cacheRoutes } from './cache/routes.ts'
import { chatRoutes } from './chat/routes.ts'
import {
  acceptedPerTenant,
  type CacheConfig,
  type ConcurrencyLimits,
  DEFAULT_CACHE,
  DEFAULT_CONCURRENCY,
  DEFAULT_LIMITS,
  type RequestLimits,
  type ResponsesConfig,
} from './config.ts'
import { createCatalogue } from './discovery/catalogue.ts'
import { modelRoutes } from './discovery/model-routes.ts'
import { discoveryRoutes } from './discovery/routes.ts'
import { createCallerGate } from './governed/caller-gate.ts'
import type { GovernedDeps } from './governed/deps.ts'
import { createIdempotency, purgeExpired, STORED_REPLAY_COLUMN } from './governed/idempotency.ts'
import { createOutages } from './governed/outages.ts'
import { createMessageCleaner } from './governed/provider-message.ts'
import { completionsRoutes } from './surfaces/completions/routes.ts'
import { geminiRoutes } from './surfaces/gemini/routes.ts'
import { messagesRoutes } from './surfaces/messages/routes.ts'
import { moderationsRoutes } from './surfaces/moderations/routes.ts'
import { openAiRoutes } from './surfaces/openai/routes.ts'
import { rerankRoutes } from './surfaces/rerank/routes.ts'
import { responsesRoutes } from './surfaces/responses/routes.ts'
import { createResponseStore, STORED_RESPONSE_COLUMN } from './surfaces/responses/store.ts'

/** Maximum time that a request waits for a slot. */
export const TURN_WAIT_MS = 10_000

export type GatewayRoom = {
  routes: Route[]
  sealedColumns: readonly SealedColumn[]
  jobs: Job[]
  /** Maximum number of concurrent requests of one tenant that the server accepts on routes that call models. */
  modelRequestsPerTenant: number
  close(): Promise<void>
}

type GatewayConfig = {
  failover?: { sameModelRetries: number } | undefined
  concurrency?: ConcurrencyLimits | undefined
  limits?: RequestLimits | undefined
  points?: PointAllowances | undefined
  responses?: ResponsesConfig | undefined
  models?: readonly ModelName[] | undefined
  defaultModel?: string | undefined
  cache?: CacheConfig | undefined
} & CredentialConfig

/** @param deps the capabilities that chats need from the lower modules */
export function openGateway(
  {
    failover,
    concurrency = DEFAULT_CONCURRENCY,
    limits = DEFAULT_LIMITS,
    points,
    responses,
    cache: cacheConfig = DEFAULT_CACHE,
    ...config
  }: GatewayConfig,
  deps: Omit<
    GovernedDeps,
    'idempotency' | 'callerGate' | 'failover' | 'limits' | 'cleanMessage' | 'names' | 'cache'
  > & {
    limiter: RateLimiter
    masterKey: MasterKey
    /** Called after events were stored without the ledger. */
    announceEvents(): void
    prices: PriceList
    /** The dependencies that every administrative change needs. */
    access: ChangeDeps
  },
): GatewayRoom {
  const { db, clock, log, policies, limiter, masterKey, prices, access } = deps
  const outages = createOutages({ db, clock, log, announceEvents: deps.announceEvents })
  const names = createModelNames(config, deps.providers, prices.hasOwnPrice)
  const catalogue = createCatalogue(config.providers, { names, policies, prices, limits })
  const responseStore = createResponseStore({ db, clock, masterKey })
  const stored = responses?.store ? responseStore : undefined
  const idempotency = createIdempotency({ db, clock, log, masterKey })
  const cache = cacheConfig.enabled ? createAnswerCache({ db, clock, log, masterKey }, cacheConfig) : undefined
  const governed: GovernedDeps = {
    ...deps,
    names,
    idempotency,
    limits,
    cache,
    cleanMessage: createMessageCleaner(secretsOf(config)),
    ...createLoadAndFailover(concurrency, failover?.sameModelRetries ?? SAME_MODEL_RETRIES.default, clock, outages),
  }
  return {
    routes: [
      ...discoveryRoutes({ db, clock, catalogue, countsOf: limiter.usageOf, points }),
      ...modelRoutes({ catalogue, clock }),
      ...chatRoutes(governed),
      ...openAiRoutes(governed),
      ...responsesRoutes(governed, stored),
      ...messagesRoutes(governed),
      ...geminiRoutes(governed, catalogue),
      ...completionsRoutes(governed),
      ...moderationsRoutes(governed),
      ...rerankRoutes(governed),
      ...cacheRoutes(access, cacheConfig, cache),
    ],
    sealedColumns: [STORED_RESPONSE_COLUMN, STORED_REPLAY_COLUMN, CACHED_ANSWER_COLUMN],
    jobs: [
      { name: 'purge-idempotency', cron: '*/10 * * * *', run: () => purgeExpired({ db, clock }) },
      // Stored answers also expire after storing was turned off.
      { name: 'purge-responses', cron: '15 * * * *', run: () => responseStore.purge() },
      { name: 'read-outages', cron: '* * * * *', run: () => outages.refresh() },
      { name: 'purge-cache', cron: '*/5 * * * *', run: () => purgeCache({ db, clock }) },
    ],
    modelRequestsPerTenant: acceptedPerTenant(concurrency),
    async close() {
      idempotency.close()
      await outages.close()
    },
  }
}

/** Limits the load on this daemon and on the providers, and skips models that are down. */
function createLoadAndFailover(
  { perTenant, perKey, perProvider, waitingPerKey }: ConcurrencyLimits,
  sameModelRetries: number,
  clock: Clock,
  outages: OutageReports,
): Pick<GovernedDeps, 'callerGate' | 'failover'> {
  const waits = { waitingPerQueue: waitingPerKey, waitMs: TURN_WAIT_MS }
  return {
    callerGate: createCallerGate({ perTenant, perKey }, waits, clock),
    failover: {
      breaker: createBreaker({ clock, outages }),
      coolDowns: createCoolDowns({ clock }),
      providerGates: createGates({ ...waits, slots: perProvider }, clock, `this provider may run ${perProvider}`),
      sameModelRetries,
    },
  }
}
