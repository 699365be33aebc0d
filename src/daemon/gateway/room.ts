// The gateway module: requests to models on every surface, and the routes that describe models and usage.
import { isDeepStrictEqual } from 'node:util'
import type { Registry } from 'prom-client'
import { SAME_MODEL_RETRIES } from '../../shared/spec-limits.ts'
import type { Clock } from '../../shared/time.ts'
import type { PointAllowances } from '../metering/config.ts'
import type { RateLimiter } from '../metering/rate-limits/rate-limiter.ts'
import type { PriceList } from '../metering/usage/prices.ts'
import { createBreaker } from '../models/breaker.ts'
import type { ModelName } from '../models/config.ts'
import { createCoolDowns } from '../models/cool-down.ts'
import { type CredentialConfig, secretsOf } from '../models/credentials.ts'
import { createModelNames } from '../models/names.ts'
import { createGates, type Gates } from '../platform/concurrency/gates.ts'
import type { Route } from '../platform/http/route.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { ModelLabels } from '../platform/metrics/model-labels.ts'
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
import { type CallerGate, createCallerGate } from './governed/caller-gate.ts'
import type { GovernedDeps } from './governed/deps.ts'
import { createIdempotency, purgeExpired, STORED_REPLAY_COLUMN } from './governed/idempotency.ts'
import { createOutages } from './governed/outages.ts'
import { type CleanMessage, createMessageCleaner } from './governed/provider-message.ts'
import { createCircuitMetrics, createGateMetrics } from './metrics.ts'
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
  /** Returns the routes under a configuration. A request keeps the configuration of the route that it began with. */
  prepare(config: GatewayConfig, models: GatewayModels): PreparedGateway
  sealedColumns: readonly SealedColumn[]
  jobs: Job[]
  close(): Promise<void>
}

export type PreparedGateway = {
  routes: Route[]
  /** Maximum number of concurrent requests of one tenant that the server accepts on routes that call models. */
  modelRequestsPerTenant: number
  /** Removes credentials and other secrets from the message of a provider. */
  cleanMessage: CleanMessage
  /**
   * Makes this configuration the current one.
   * @param replaced the providers whose address or key has changed; their failures are forgotten
   */
  use(replaced: readonly string[]): void
}

/** The models of one configuration, and their prices. */
type GatewayModels = Pick<GovernedDeps, 'providers' | 'billing'> & { prices: PriceList }

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
  deps: Omit<
    GovernedDeps,
    'providers' | 'billing' | 'idempotency' | 'callerGate' | 'failover' | 'limits' | 'cleanMessage' | 'names' | 'cache'
  > & {
    limiter: RateLimiter
    masterKey: MasterKey
    /** Called after events were stored without the ledger. */
    announceEvents(): void
    /** The dependencies that every administrative change needs. */
    access: ChangeDeps
    metrics: Registry
    modelLabels: ModelLabels
  },
): GatewayRoom {
  const { db, clock, log, policies, limiter, masterKey, access, metrics, modelLabels } = deps
  const startedMs = clock.now()
  const outages = createOutages({ db, clock, log, announceEvents: deps.announceEvents })
  const responseStore = createResponseStore({ db, clock, masterKey })
  const idempotency = createIdempotency({ db, clock, log, masterKey })
  // State that every configuration shares, so that a reload neither closes a circuit nor lets more requests in.
  const breaker = createBreaker({ clock, outages })
  const coolDowns = createCoolDowns({ clock })
  createCircuitMetrics([metrics], breaker, modelLabels)
  // Metrics show the gates in force. Gates of an earlier configuration only let their last requests leave.
  const watches = createGateMetrics([metrics], () => {
    const gates = gatesOf.inForce()
    return { ...(gates?.callerGate.waiting() ?? { key: 0, tenant: 0 }), provider: gates?.providerGates.waiting ?? 0 }
  })
  const gatesOf = keptWhileSame((limits: ConcurrencyLimits) => createLoadGates(limits, clock, watches))
  const cacheOf = keptWhileSame((config: CacheConfig) =>
    config.enabled ? createAnswerCache({ db, clock, log, masterKey }, config) : undefined,
  )

  function prepare(
    {
      failover,
      concurrency = DEFAULT_CONCURRENCY,
      limits = DEFAULT_LIMITS,
      points,
      responses,
      cache: cacheConfig = DEFAULT_CACHE,
      ...config
    }: GatewayConfig,
    { providers, billing, prices }: GatewayModels,
  ): PreparedGateway {
    const names = createModelNames(config, providers, prices.hasOwnPrice)
    const catalogue = createCatalogue(config.providers, { names, policies, prices, limits })
    const stored = responses?.store ? responseStore : undefined
    const { value: cache, use: useCache } = cacheOf.prepare(cacheConfig)
    const { value: gates, use: useGates } = gatesOf.prepare(concurrency)
    const { callerGate, providerGates } = gates
    const sameModelRetries = failover?.sameModelRetries ?? SAME_MODEL_RETRIES.default
    const cleanMessage = createMessageCleaner(secretsOf(config))
    const governed: GovernedDeps = {
      ...deps,
      ...{ providers, billing, names, idempotency, limits, cache, cleanMessage, callerGate },
      failover: { breaker, coolDowns, providerGates, sameModelRetries },
    }
    const routes = [
      ...discoveryRoutes({ db, clock, catalogue, countsOf: limiter.usageOf, points }),
      ...modelRoutes({ catalogue, startedMs }),
      ...chatRoutes(governed),
      ...openAiRoutes(governed),
      ...responsesRoutes(governed, stored),
      ...messagesRoutes(governed),
      ...geminiRoutes(governed, catalogue),
      ...completionsRoutes(governed),
      ...moderationsRoutes(governed),
      ...rerankRoutes(governed),
      ...cacheRoutes(access, cacheConfig, cache),
    ]
    return {
      routes,
      cleanMessage,
      modelRequestsPerTenant: acceptedPerTenant(concurrency),
      use(replaced) {
        useCache()
        useGates()
        for (const provider of replaced) {
          breaker.forget(provider)
          coolDowns.forget(provider)
        }
      },
    }
  }

  return {
    prepare,
    sealedColumns: [STORED_RESPONSE_COLUMN, STORED_REPLAY_COLUMN, CACHED_ANSWER_COLUMN],
    jobs: [
      { name: 'purge-idempotency', cron: '*/10 * * * *', run: () => purgeExpired({ db, clock }) },
      // Stored answers also expire after storing was turned off.
      { name: 'purge-responses', cron: '15 * * * *', run: () => responseStore.purge() },
      { name: 'read-outages', cron: '* * * * *', run: () => outages.refresh() },
      { name: 'purge-cache', cron: '*/5 * * * *', run: () => purgeCache({ db, clock }) },
    ],
    async close() {
      idempotency.close()
      await outages.close()
    },
  }
}

/** Limits the load on this daemon and on the providers. */
function createLoadGates(
  { perTenant, perKey, perProvider, waitingPerKey }: ConcurrencyLimits,
  clock: Clock,
  watches: ReturnType<typeof createGateMetrics>,
): { callerGate: CallerGate; providerGates: Gates } {
  const waits = { waitingPerQueue: waitingPerKey, waitMs: TURN_WAIT_MS }
  return {
    callerGate: createCallerGate({ perTenant, perKey }, waits, clock, watches),
    providerGates: createGates({ ...waits, slots: perProvider }, clock, `this provider may run ${perProvider}`, {
      watch: watches.provider,
    }),
  }
}

/** Creates a value for a configuration. The value in force is used again for the same configuration. */
function keptWhileSame<Config extends object, Value>(create: (config: Config) => Value) {
  let inForce: { config: Config; value: Value } | undefined
  return {
    inForce: () => inForce?.value,
    prepare(config: Config): { value: Value; use(): void } {
      const next = inForce && isDeepStrictEqual(inForce.config, config) ? inForce : { config, value: create(config) }
      return {
        value: next.value,
        use() {
          inForce = next
        },
      }
    },
  }
}
