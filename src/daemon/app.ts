import { join } from 'node:path'
import {
  COUNTERS_PURGE_MS,
  IDEMPOTENCY_PURGE_MS,
  INCIDENTS_PURGE_MS,
  INDEX_PURGE_MS,
  LOCAL_LOOK_MS,
  RESERVATIONS_PURGE_MS,
  SAME_MODEL_RETRIES,
  TURN_WAIT_MS,
  WEBHOOK_HELD_TRIM_MS,
  WEBHOOK_PURGE_MS,
} from '../shared/spec-limits.ts'
import type { Clock } from '../shared/time.ts'
import { createIdempotency, purgeExpired } from './chat/idempotency.ts'
import { chatRoutes } from './chat/routes.ts'
import { type Config, DEFAULT_CONCURRENCY } from './config.ts'
import { lockDataDir, makeDataDir } from './db/data-dir-lock.ts'
import { type Db, migrateDatabase, openDatabase } from './db/database.ts'
import { deleteExpiredReservations } from './db/spend-counters.ts'
import { createStoreCheck } from './db/store-check.ts'
import { discoveryRoutes } from './discovery/routes.ts'
import { groupRoutes } from './groups/routes.ts'
import type { Route } from './http/route.ts'
import { type ConnectionLimits, type HttpServer, startHttpServer } from './http/server.ts'
import { incidentRoutes } from './incidents/routes.ts'
import { purgeIncidents } from './incidents/store.ts'
import { type Job, startSchedule } from './jobs/schedule.ts'
import { createAuthenticator } from './keys/authenticate.ts'
import { keyRoutes } from './keys/routes.ts'
import { createExtractor } from './knowledge/extract/pool.ts'
import { purgeDeletedIndexes } from './knowledge/index-removal.ts'
import { reindexDocuments } from './knowledge/reindex.ts'
import { knowledgeRoutes } from './knowledge/routes.ts'
import { createLedger } from './ledger/ledger.ts'
import { licenseRoutes } from './licenses/routes.ts'
import { createGates } from './load/gates.ts'
import type { Log } from './log.ts'
import { messagesRoutes } from './messages-surface/routes.ts'
import { createMetrics } from './metrics/registry.ts'
import { metricsRoutes } from './metrics/routes.ts'
import { openAiRoutes } from './openai-surface/routes.ts'
import { createBreaker } from './providers/breaker.ts'
import { localProvider } from './providers/local/extract.ts'
import { createLocalServers } from './providers/local-servers.ts'
import { createProviderRegistry } from './providers/registry.ts'
import { createRateLimiter } from './rate-limits/limiter.ts'
import { purgeCounters } from './rate-limits/purge.ts'
import { roleRoutes } from './roles/routes.ts'
import { openMasterKey } from './secrets/master-key.ts'
import { systemRoutes } from './system/routes.ts'
import { ensureFirstStart } from './tenants/first-start.ts'
import { tenantRoutes } from './tenants/routes.ts'
import { createBilling } from './usage/billing.ts'
import { userRoutes } from './users/routes.ts'
import { type Dispatcher, startDispatcher } from './webhooks/dispatch/dispatcher.ts'
import { createHostResolver } from './webhooks/host-resolver.ts'
import { listenRoutes } from './webhooks/listen.ts'
import { createOwnAddressCheck } from './webhooks/own-address.ts'
import { dropHeld, purgeWebhooks } from './webhooks/purge.ts'
import { webhookRoutes } from './webhooks/routes.ts'
import { checkTarget, type TargetGuard } from './webhooks/target-guard.ts'

/** A running daemon. */
export type App = {
  url: string
  /** Every route it serves, for the description of the interface. */
  routes: readonly Route[]
  db: Db
  /** Lets running requests finish within the configured time, refuses new ones, then closes everything. */
  drain(): Promise<void>
  /** Closes everything; requests that still run are aborted. */
  close(): Promise<void>
}

export type AppDeps = {
  clock: Clock
  log: Log
  limits?: Partial<ConnectionLimits>
  /** The program of the threads that read files, where it is not beside ours. */
  extractionWorker?: URL
}

/**
 * Opens every resource in order, listens, and hands out what closes them in reverse.
 * @throws when the data directory is in use, the store cannot be opened or is newer than this binary, or the address is
 * taken; what was opened until then is closed again.
 */
export async function startApp(config: Config, deps: AppDeps): Promise<App> {
  const { clock, log, limits = {}, extractionWorker } = deps
  const opened: (() => Promise<void>)[] = []
  async function closeAll(): Promise<void> {
    for (const close of opened.splice(0).reverse()) await close()
  }

  try {
    await makeDataDir(config.dataDir)
    const lock = config.database.kind === 'sqlite' ? await lockDataDir(config.dataDir) : undefined
    if (lock) opened.push(() => lock.release())

    const db = await openDatabase(
      config.database.kind === 'sqlite' ? { kind: 'sqlite', dataDir: config.dataDir } : config.database,
      { log },
    )
    opened.push(() => db.destroy())
    await migrateDatabase(db)
    await reindexDocuments(db, { clock, log })
    const { createdKeyFile, warning } = await ensureFirstStart(db, {
      bootstrapKey: config.bootstrapKey,
      dataDir: config.dataDir,
      clock,
    })
    if (warning) log.warn({}, warning)
    if (createdKeyFile) log.info({ file: createdKeyFile }, 'created the administrator key')

    const masterKey = await openMasterKey(db, { configured: config.masterKey, dataDir: config.dataDir, clock, log })

    const metrics = createMetrics()
    let dispatcher: Dispatcher | undefined
    const onEvents = () => dispatcher?.wake()
    const ledger = createLedger({ db, clock, log, onEvents })
    opened.push(() => ledger.close())
    const idempotency = createIdempotency({ db, clock, log })
    opened.push(async () => idempotency.close())
    const localServers = createLocalServers(
      config.providers.map(({ name }) => name),
      { clock, log },
    )
    opened.push(() => localServers.close())
    const providers = createProviderRegistry(config.providers, {
      clock,
      log,
      builtIn: [localProvider(config.scripts, clock)],
      found: localServers.found,
    })
    opened.push(() => providers.close())
    const jobs = startSchedule(
      [
        { name: 'purge-counters', everyMs: COUNTERS_PURGE_MS, run: () => purgeCounters({ db, clock }) },
        ...(config.database.kind === 'postgres' ? [reservationsJob(db)] : []),
        { name: 'purge-idempotency', everyMs: IDEMPOTENCY_PURGE_MS, run: () => purgeExpired({ db, clock }) },
        { name: 'purge-indexes', everyMs: INDEX_PURGE_MS, run: () => purgeDeletedIndexes(db) },
        { name: 'purge-incidents', everyMs: INCIDENTS_PURGE_MS, run: () => purgeIncidents({ db, clock }) },
        { name: 'purge-webhooks', everyMs: WEBHOOK_PURGE_MS, run: () => purgeWebhooks({ db, clock }) },
        { name: 'drop-held-webhooks', everyMs: WEBHOOK_HELD_TRIM_MS, run: () => dropHeld({ db }) },
        ...(config.discoverLocal
          ? [{ name: 'find-local-servers', everyMs: LOCAL_LOOK_MS, run: localServers.look }]
          : []),
      ],
      { clock, log },
    )
    opened.push(() => jobs.stop())
    const extractor = createExtractor({ clock, log, worker: extractionWorker })
    opened.push(() => extractor.close())
    const authenticator = createAuthenticator({ db, clock, trustedProxies: config.trustedProxies })
    const limiter = createRateLimiter({ db, ledger, clock, log, onEvents })

    const billing = createBilling(config, { db, clock, log })
    opened.push(async () => billing.close())
    const chat = { db, providers, ledger, idempotency, billing, clock, log, ...createLoadAndFailover(config, clock) }
    const access = { db, clock, forgetKeys: authenticator.forgetKeys, lookUpAgain: authenticator.lookUpAgain }

    const allowPrivate = config.webhooks?.allowPrivate ?? false
    const resolver = createHostResolver({ clock, systemNames: allowPrivate })
    opened.push(async () => resolver.close())
    let server: HttpServer | undefined
    const isOwn = createOwnAddressCheck(() => (server ? Number(new URL(server.url).port) : undefined))
    const guard: TargetGuard = { resolve: resolver.resolve, allowPrivate, isOwn }
    const deliveries = await startDispatcher({ db, clock, log, guard, masterKey, metrics })
    opened.push(() => deliveries.close())
    dispatcher = deliveries
    const webhooks = {
      masterKey,
      checkTarget: (url: string) => checkTarget(url, { guard, clock }),
      onChange: deliveries.endpointChanged,
    }

    const isDraining = () => server?.isDraining() ?? false
    const routes: Route[] = [
      ...systemRoutes({
        clock,
        checkStore: createStoreCheck({ db, clock }),
        isDraining,
        allRoutes: () => routes,
      }),
      ...metricsRoutes({ metrics }),
      ...tenantRoutes(access),
      ...userRoutes({ ...access, licenses: config.licenses }),
      ...licenseRoutes({ db, licenses: config.licenses }),
      ...groupRoutes(access),
      ...roleRoutes(access),
      ...keyRoutes(access),
      ...webhookRoutes({ ...access, ...webhooks }),
      ...listenRoutes({ ...access, ...webhooks, isDraining }),
      ...incidentRoutes({ db }),
      ...discoveryRoutes({ db, clock, providers, countsOf: limiter.usageOf, points: config.points }),
      ...chatRoutes(chat),
      ...openAiRoutes(chat),
      ...messagesRoutes(chat),
      ...knowledgeRoutes({ ...access, log, extractor, uploadsDir: join(config.dataDir, 'uploads') }),
    ]
    const listening = await startHttpServer({
      routes,
      authenticate: authenticator.authenticate,
      limiter,
      clock,
      log,
      listen: config.listen,
      limits,
    })
    server = listening
    opened.push(() => listening.close())
    await lock?.describe({ url: listening.url })

    async function drain(timeoutMs: number): Promise<void> {
      await listening.drain(timeoutMs)
      await closeAll()
    }
    return {
      url: listening.url,
      routes,
      db,
      drain: () => drain(config.drainTimeoutMs),
      close: () => drain(0),
    }
  } catch (error) {
    await closeAll()
    throw error
  }
}

/** Reservations of daemons that were killed. */
const reservationsJob = (db: Db): Job => ({
  name: 'purge-reservations',
  everyMs: RESERVATIONS_PURGE_MS,
  run: () => deleteExpiredReservations(db),
})

/** What keeps chats from overrunning this daemon and the providers, and from waiting for models that are down. */
function createLoadAndFailover({ failover, concurrency = DEFAULT_CONCURRENCY }: Config, clock: Clock) {
  const { perKey, perProvider, waitingPerKey } = concurrency
  const waits = { waitingPerLane: waitingPerKey, waitMs: TURN_WAIT_MS }
  return {
    keyGates: createGates({ ...waits, places: perKey }, clock, `this key may run ${perKey}`),
    failover: {
      breaker: createBreaker({ clock }),
      providerGates: createGates({ ...waits, places: perProvider }, clock, `this provider may be asked ${perProvider}`),
      sameModelRetries: failover?.sameModelRetries ?? SAME_MODEL_RETRIES.default,
    },
  }
}
