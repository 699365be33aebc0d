import { join } from 'node:path'
import {
  COUNTERS_PURGE_MS,
  EVIDENCE_CHECKPOINT_LOOK_MS,
  EVIDENCE_EXPUNGE_MS,
  EVIDENCE_KEY_CACHE_MS,
  IDEMPOTENCY_PURGE_MS,
  INCIDENTS_PURGE_MS,
  INDEX_PURGE_MS,
  LOCAL_LOOK_MS,
  POLICY_CACHE_MS,
  RESERVATIONS_PURGE_MS,
  SAME_MODEL_RETRIES,
  SHIELD_POLICY_CACHE_MS,
  TURN_WAIT_MS,
  WEBHOOK_HELD_TRIM_MS,
  WEBHOOK_PURGE_MS,
} from '../shared/spec-limits.ts'
import type { Clock } from '../shared/time.ts'
import type { Config } from './config/config.ts'
import { createIdempotency, purgeExpired } from './gateway/chat/idempotency.ts'
import { chatRoutes } from './gateway/chat/routes.ts'
import { DEFAULT_CONCURRENCY, DEFAULT_LIMITS } from './gateway/config.ts'
import { discoveryRoutes } from './gateway/discovery/routes.ts'
import { messagesRoutes } from './gateway/surfaces/messages/routes.ts'
import { openAiRoutes } from './gateway/surfaces/openai/routes.ts'
import { groupRoutes } from './identity/groups/routes.ts'
import { createAuthenticator } from './identity/keys/authenticate.ts'
import { keyRoutes } from './identity/keys/routes.ts'
import { roleRoutes } from './identity/roles/routes.ts'
import { ensureFirstStart } from './identity/tenants/first-start.ts'
import { tenantRoutes } from './identity/tenants/routes.ts'
import { userRoutes } from './identity/users/routes.ts'
import { findUserNames } from './identity/users/store.ts'
import { createMerger } from './knowledge/indexes/merger.ts'
import { purgeKnowledge } from './knowledge/indexes/purge.ts'
import { reindexDocuments } from './knowledge/indexes/reindex.ts'
import { createExtractor, type ExtractorDeps } from './knowledge/ingest/extract/pool.ts'
import { knowledgeRoutes } from './knowledge/routes.ts'
import { openRetrieval } from './knowledge/search/vectors/retrieval.ts'
import { licenseRoutes } from './metering/licenses/routes.ts'
import { createRateLimiter } from './metering/rate-limits/limiter.ts'
import { purgeCounters } from './metering/rate-limits/purge.ts'
import { createBilling } from './metering/usage/billing.ts'
import { createBreaker } from './models/breaker.ts'
import { createLocalServers } from './models/local-servers.ts'
import { localProvider } from './models/providers/local/extract.ts'
import { createProviderRegistry } from './models/registry.ts'
import { createGates } from './platform/concurrency/gates.ts'
import { lockDataDir, makeDataDir } from './platform/db/data-dir-lock.ts'
import { openDatabase } from './platform/db/database.ts'
import type { Db } from './platform/db/db.ts'
import { createFreshCache } from './platform/db/fresh-cache.ts'
import { migrateDatabase } from './platform/db/migrate.ts'
import { deleteExpiredReservations } from './platform/db/spend-counters.ts'
import { createStoreCheck } from './platform/db/store-check.ts'
import { BodyMemory, defaultBodyMemory } from './platform/http/body-memory.ts'
import type { Route } from './platform/http/route.ts'
import { type ConnectionLimits, type HttpServer, startHttpServer } from './platform/http/server.ts'
import { systemRoutes } from './platform/http/system-routes.ts'
import { type Job, startSchedule } from './platform/jobs/schedule.ts'
import type { Log } from './platform/log.ts'
import { createMetrics } from './platform/metrics/registry.ts'
import { metricsRoutes } from './platform/metrics/routes.ts'
import { openMasterKey } from './platform/secrets/master-key.ts'
import { DEFAULT_EVIDENCE } from './records/config.ts'
import { chainRoutes } from './records/evidence/chain-routes.ts'
import { startComparison } from './records/evidence/checkpoint-file.ts'
import { createCheckpoints } from './records/evidence/checkpoints.ts'
import { openDaemonId } from './records/evidence/daemon-id.ts'
import { createIntegrity } from './records/evidence/integrity.ts'
import { publicEvidenceRoutes } from './records/evidence/public-routes.ts'
import { receiptRoutes } from './records/evidence/receipt-routes.ts'
import { createRetention } from './records/evidence/retention.ts'
import { createSealer } from './records/evidence/sealing.ts'
import { createSecondPlaces } from './records/evidence/second-places.ts'
import { openSigningKeys } from './records/evidence/signing-keys.ts'
import { signingRoutes } from './records/evidence/signing-routes.ts'
import { transparencyRoutes } from './records/evidence/transparency-routes.ts'
import { createLedger } from './records/ledger/ledger.ts'
import { logRoutes } from './records/logs/routes.ts'
import { createGuards } from './safety/guards/guards.ts'
import { guardRuleRoutes } from './safety/guards/rules/routes.ts'
import { incidentRoutes } from './safety/incidents/routes.ts'
import { purgeIncidents } from './safety/incidents/store.ts'
import { loadTenantPolicies } from './safety/policies/catalogue.ts'
import { policyRoutes } from './safety/policies/routes.ts'
import { knownPolicies } from './safety/policies/store.ts'
import { shieldPolicyRoutes } from './safety/prompt-shield/policy-routes.ts'
import { scanRoutes } from './safety/prompt-shield/scan-routes.ts'
import { findShieldPolicies } from './safety/prompt-shield/store.ts'
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
  /** What request bodies take in memory. */
  bodies: BodyMemory
  /** Lets running requests finish within the configured time, refuses new ones, then closes everything. */
  drain(): Promise<void>
  /** Closes everything; requests that still run are aborted. */
  close(): Promise<void>
}

export type AppDeps = {
  clock: Clock
  log: Log
  limits?: Partial<ConnectionLimits>
  /** The processes that read files: where their program is, and whether they yield to everything else on the machine. */
  extraction?: Pick<ExtractorDeps, 'program' | 'lowPriority'>
}

/**
 * Opens every resource in order, listens, and hands out what closes them in reverse.
 * @throws when the data directory is in use, the store cannot be opened or is newer than this binary, or the address is
 * taken; what was opened until then is closed again.
 */
export async function startApp(config: Config, deps: AppDeps): Promise<App> {
  const { clock, log, limits = {}, extraction = {} } = deps
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
      { log, withVectors: config.knowledge?.embedding !== undefined },
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
    const evidence = config.evidence ?? DEFAULT_EVIDENCE
    const signingKeys = await openSigningKeys(db, { masterKey, name: evidence.name, clock, log })
    const { checkpointFile: file, checkpointUrl: url } = evidence
    const places = createSecondPlaces({ file, url, log })
    const checkpoints = createCheckpoints({ db, clock, log, keys: signingKeys, places })
    opened.push(() => checkpoints.close())
    const history = startComparison({ db, file, keys: signingKeys, places, log })
    opened.push(() => history.close())
    const daemonId = await openDaemonId(config.dataDir)
    const sealer = createSealer({ db, clock, keys: signingKeys, daemonId, onGrowth: checkpoints.wake })
    const ledger = createLedger({ db, clock, log, sealer, onEvents })
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
    const { search, embeddingOf, ...retrieval } = await openRetrieval(config.knowledge ?? {}, {
      ...{ db, providers, clock, log, metrics },
    })
    opened.push(() => retrieval.close())
    const uploadsDir = join(config.dataDir, 'uploads')
    const retention = createRetention({ db, clock, days: evidence.retentionDays })
    const aloneSince = lock && clock.now()
    const jobs = startSchedule(
      [
        { name: 'purge-counters', everyMs: COUNTERS_PURGE_MS, run: () => purgeCounters({ db, clock }) },
        ...(config.database.kind === 'postgres' ? [reservationsJob(db)] : []),
        { name: 'purge-idempotency', everyMs: IDEMPOTENCY_PURGE_MS, run: () => purgeExpired({ db, clock }) },
        {
          name: 'purge-knowledge',
          everyMs: INDEX_PURGE_MS,
          run: () => purgeKnowledge({ db, clock, uploadsDir, aloneSince }),
        },
        { name: 'make-checkpoints', everyMs: EVIDENCE_CHECKPOINT_LOOK_MS, run: checkpoints.run },
        { name: 'expunge-evidence', everyMs: EVIDENCE_EXPUNGE_MS, run: retention.run },
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
    const extractor = createExtractor({ clock, log, ...extraction })
    opened.push(() => extractor.close())
    const merger = createMerger({ db, clock, log })
    opened.push(() => merger.close())
    const authenticator = createAuthenticator({ db, clock, trustedProxies: config.trustedProxies })
    const limiter = createRateLimiter({ db, ledger, clock, log, onEvents })

    const shieldPolicies = createFreshCache({
      clock,
      maxAgeMs: SHIELD_POLICY_CACHE_MS,
      load: (tenantId) => findShieldPolicies(db, tenantId),
    })
    const billing = createBilling(config, { db, clock, log })
    opened.push(async () => billing.close())
    const policies = createFreshCache({
      clock,
      maxAgeMs: POLICY_CACHE_MS,
      load: (tenantId) => loadTenantPolicies(db, tenantId),
    })
    const keySet = createFreshCache({
      clock,
      maxAgeMs: EVIDENCE_KEY_CACHE_MS,
      load: () => signingKeys.published(),
    })
    const guards = createGuards({ db, clock, log, masterKey, shieldPolicies, providers })
    const requestLimits = config.limits ?? DEFAULT_LIMITS
    const chat = {
      db,
      providers,
      guards,
      policies,
      search,
      ledger,
      idempotency,
      billing,
      isAccepted: authenticator.isAccepted,
      receipts: evidence.receipts,
      limits: requestLimits,
      clock,
      log,
      ...createLoadAndFailover(config, clock),
    }
    const { forgetKeys, lookUpAgain } = authenticator
    const access = { db, clock, signingKeys, forgetKeys, lookUpAgain }

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

    const integrity = createIntegrity({ db, clock, keys: signingKeys })
    const isDoubted = async () => checkpoints.foundDamage() || (await history.hasLost())
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
      ...keyRoutes({ ...access, knownPolicies }),
      ...webhookRoutes({ ...access, ...webhooks }),
      ...listenRoutes({ ...access, ...webhooks, isDraining }),
      ...guardRuleRoutes({ ...access, guardRules: guards.tenantRules }),
      ...scanRoutes({ guards, policies, clock }),
      ...shieldPolicyRoutes({ ...access, shieldPolicies }),
      ...incidentRoutes({ db }),
      ...logRoutes({ db, clock, findUserNames }),
      ...receiptRoutes({ db, enabled: evidence.receipts }),
      ...transparencyRoutes({ db, clock, integrity, isDoubted }),
      ...chainRoutes({ db }),
      ...signingRoutes({ ...access, checkpoints, keySet }),
      ...publicEvidenceRoutes({ db, clock, keys: signingKeys, keySet, trustedProxies: config.trustedProxies }),
      ...policyRoutes({ ...access, policies }),
      ...discoveryRoutes({ db, clock, providers, policies, countsOf: limiter.usageOf, points: config.points }),
      ...chatRoutes(chat),
      ...openAiRoutes(chat),
      ...messagesRoutes(chat),
      ...knowledgeRoutes({
        ...access,
        guards,
        policies,
        ledger,
        log,
        search,
        embeddingOf,
        extractor,
        merger,
        uploadsDir,
      }),
    ]
    const bodies = new BodyMemory(requestLimits.bodyMemoryBytes ?? defaultBodyMemory())
    const listening = await startHttpServer({
      routes,
      authenticate: authenticator.authenticate,
      limiter,
      clock,
      log,
      listen: config.listen,
      limits,
      bodies,
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
      bodies,
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
