import { REJECTED_KEYS } from '../shared/spec-limits.ts'
import type { Clock } from '../shared/time.ts'
import type { Config, ConfigFaults } from './config/config.ts'
import { openControl } from './control/room.ts'
import { openGateway } from './gateway/room.ts'
import { openIdentity } from './identity/room.ts'
import { type Extraction, openKnowledge } from './knowledge/room.ts'
import { openMetering } from './metering/room.ts'
import { openModels } from './models/room.ts'
import { lockDataDir, makeDataDir } from './platform/db/data-dir-lock.ts'
import { openDatabase, type StoreTimeouts } from './platform/db/database.ts'
import type { Db } from './platform/db/db.ts'
import { migrateDatabase } from './platform/db/migrate.ts'
import { createStoreCheck } from './platform/db/store-check.ts'
import { BodyMemory, defaultBodyMemory } from './platform/http/body-memory.ts'
import { createCors } from './platform/http/cors.ts'
import { createRequestLog } from './platform/http/request-log.ts'
import type { RequestObserver } from './platform/http/request-observer.ts'
import type { Route } from './platform/http/route.ts'
import { type ConnectionLimits, createHttp } from './platform/http/server.ts'
import { systemRoutes } from './platform/http/system-routes.ts'
import { type Cron, startSchedule } from './platform/jobs/schedule.ts'
import type { Log } from './platform/log.ts'
import { createModelLabels } from './platform/metrics/model-labels.ts'
import { createMetrics } from './platform/metrics/registry.ts'
import { createRequestMetrics } from './platform/metrics/request-metrics.ts'
import { metricsRoutes } from './platform/metrics/routes.ts'
import { surfaceOf } from './platform/metrics/surface.ts'
import { createSystemMetrics } from './platform/metrics/system-metrics.ts'
import { openNames } from './platform/network/names.ts'
import { openMasterKey } from './platform/secrets/master-key.ts'
import { createRotation } from './platform/secrets/rotation.ts'
import { openTelemetry } from './platform/telemetry/telemetry.ts'
import { openRecords } from './records/room.ts'
import { knownPolicies, knownShieldPolicies, openSafety } from './safety/room.ts'
import { openCheckedTargets, openWebhooks } from './webhooks/room.ts'

/** A running daemon. */
export type App = {
  url: string
  /** All routes that the daemon serves, for the OpenAPI document. */
  routes: readonly Route[]
  db: Db
  /** Tracks the memory that request bodies use. */
  bodies: BodyMemory
  /** Reads the configuration again. If it is invalid, nothing changes, and the log says why. Never throws. */
  reload(): Promise<void>
  /** Rejects new requests, waits for running ones within the configured time, then closes everything. */
  drain(): Promise<void>
  /** Aborts running requests and closes everything. */
  close(): Promise<void>
}

export type AppDeps = {
  clock: Clock
  log: Log
  limits?: Partial<ConnectionLimits>
  storeTimeouts?: StoreTimeouts
  extraction?: Extraction
  /** The program of the ranking thread. By default, the built one. */
  rankingProgram?: URL
  /** The program of the thread for the prompt shield's model. By default, the built one. */
  shieldProgram?: URL
  /** Reads flags, environment and file again, for a reload. By default, the configuration never changes. */
  loadConfig?: () => Config | ConfigFaults
  /** Called when a configuration comes into force. */
  onConfig?(config: Config): void
  /** Decides when jobs run. By default, uses the system's clock. */
  cron?: Cron
}

/**
 * Opens the modules from the lowest layer up, listens, and starts the scheduled jobs. Modules are closed in reverse
 * order.
 * @throws an error if the data directory or the address is in use, or if the store cannot be opened or is newer than
 * this binary. Everything that was already opened is closed before the error is thrown.
 */
export async function startApp(
  config: Config,
  { clock, log, cron, limits = {}, storeTimeouts = {}, extraction = {}, ...deps }: AppDeps,
): Promise<App> {
  const { rankingProgram, shieldProgram, loadConfig, onConfig } = deps
  const opened: (() => Promise<void>)[] = []
  const open = <T extends { close(): Promise<void> }>(room: T): T => {
    opened.push(() => room.close())
    return room
  }
  async function closeAll(): Promise<void> {
    for (const close of opened.splice(0).reverse()) await close()
  }

  try {
    await makeDataDir(config.dataDir)
    const lock = config.database.kind === 'sqlite' ? await lockDataDir(config.dataDir) : undefined
    if (lock) opened.push(() => lock.release())
    const db = await openDatabase(
      config.database.kind === 'sqlite' ? { kind: 'sqlite', dataDir: config.dataDir } : config.database,
      { log, withVectors: config.knowledge?.embedding !== undefined, timeouts: storeTimeouts },
    )
    opened.push(() => db.destroy())
    await migrateDatabase(db)
    const aloneSince = lock && clock.now()
    const keySources = {
      configured: config.masterKey,
      next: config.nextMasterKey,
      dataDir: config.dataDir,
      clock,
      log,
    }
    const masterKey = await openMasterKey(db, keySources)
    const metrics = createMetrics()
    const http = createHttp()
    const names = openNames({ clock })
    opened.push(async () => names.close())

    const control = open(await openControl(config, { db, masterKey, clock, log, loadConfig }))
    const models = open(openModels(control.current(), { clock, log, resolve: names.ofOperator }))
    const { providers } = models
    const modelLabels = createModelLabels(() => providers.describe())
    createSystemMetrics([metrics], { db, http, sockets: providers.sockets })
    const witnessTargets = openCheckedTargets(config.webhooks ?? {}, { http, names })
    const ofRecords = { db, masterKey, clock, log, metrics, resolve: names.ofOperator, witnessTargets }
    const records = open(await openRecords(config, ofRecords))
    const { ledger, signingKeys, receipts, announceEvents: onEvents } = records
    const metering = open(openMetering(config, { db, ledger, clock, log, onEvents }))
    const { limiter, budgets, requireFreeLicense } = metering
    const identity = await openIdentity(config, {
      db,
      clock,
      log,
      signingKeys,
      knownPolicies,
      knownShieldPolicies,
      requireFreeLicense,
      forgetBudgets: budgets.forget,
      countRejection: records.rejections.counter('authenticated', REJECTED_KEYS),
    })
    const { access, authenticate, isAccepted, findUserNames } = identity
    const safety = open(await openSafety({ ...config, shieldProgram }, { access, masterKey, providers, log }))
    const { guards, policies } = safety
    const webhooks = open(await openWebhooks(config.webhooks ?? {}, { access, masterKey, metrics, http, names, log }))
    records.onEvents(webhooks.wake)
    const ofKnowledge = { access, providers, guards, policies, ledger, metrics, log }
    const knowledge = open(await openKnowledge({ ...config, aloneSince, extraction, rankingProgram }, ofKnowledge))
    const { search, readText } = knowledge
    const ofChats = {
      access,
      db,
      guards,
      policies,
      search,
      readText,
      ledger,
      budgets,
      isAccepted,
      receipts,
      limiter,
      masterKey,
      announceEvents: onEvents,
      clock,
      log,
      metrics,
      modelLabels,
    }
    const gateway = open(openGateway(ofChats))
    const columns = [records, webhooks, gateway, control].flatMap(({ sealedColumns }) => sealedColumns)
    const rotation = open(createRotation(db, { ...keySources, masterKey, columns }))

    const modelOf = modelLabels.of
    const byTenant = config.metrics?.tenantLabel === true
    const telemetry = config.telemetry && open(await openTelemetry(config.telemetry, { clock, log, modelOf, byTenant }))
    const observers: RequestObserver[] = [
      createRequestMetrics([metrics], { models: modelLabels, byTenant }),
      ...(telemetry ? [telemetry] : []),
    ]
    const requestLog = createRequestLog({ log, surfaceOf, modelOf })

    /** Everything that depends on the configuration. Does not change what is in force. */
    function prepare(next: Config) {
      const ofModels = models.prepare(next)
      const { use: useTerms, routes: ofMetering, ...terms } = metering.prepare(next)
      const ofGateway = gateway.prepare(next, { ...terms, providers: ofModels.providers })
      const { modelRequestsPerTenant } = ofGateway
      const cors = next.cors && createCors(next.cors)
      return {
        config: next,
        prices: terms.prices,
        cleanMessage: ofGateway.cleanMessage,
        serving: {
          routes: [...fixed, ...ofMetering, ...ofGateway.routes],
          modelRequestsPerTenant,
          cors,
          observers: next.log.requests ? [...observers, requestLog] : observers,
        },
        use() {
          ofModels.use()
          modelLabels.forget()
          useTerms()
          ofGateway.use(ofModels.replaced)
          bodies.resize(bodyMemoryOf(next))
          onConfig?.(next)
        },
      }
    }

    const fixed: Route[] = [
      ...systemRoutes({
        clock,
        checkStore: createStoreCheck({ db, clock, isWritable: ledger.isWritable }),
        isDraining: http.isDraining,
        secrets: rotation.health,
        lostHistory: records.lostHistory,
        allRoutes: () => current.serving.routes,
      }),
      ...metricsRoutes({ metrics }),
      ...records.routes({ ...access, findUserNames, rotation }),
      ...metering.routes(access),
      ...[identity, safety, webhooks, knowledge].flatMap((room) => room.routes),
      ...control.routes({
        ...access,
        testProvider: (name, model, signal) => {
          const { prices, cleanMessage } = current
          return models.test(name, model, { prices, clean: (said) => cleanMessage(said, []) }, signal)
        },
      }),
    ]
    const bodies = new BodyMemory(bodyMemoryOf(config))
    let current = prepare(control.current())
    current.use()
    const ofServer = { authenticate, limiter, clock, log, listen: config.listen, limits, bodies }
    const server = open(await http.listen({ ...ofServer, ...current.serving }))
    // One turn of the event loop replaces everything, so that no request sees a part of both configurations.
    control.start((config) => {
      const next = prepare(config)
      return () => {
        current = next
        next.use()
        server.serve(next.serving)
      }
    })
    await lock?.describe({ url: server.url })
    const jobs = [models, records, metering, safety, webhooks, knowledge, gateway].flatMap((room) => room.jobs)
    const schedule = startSchedule(jobs, { log, ...(cron && { cron }) })
    opened.push(() => schedule.stop())

    async function drain(timeoutMs: number): Promise<void> {
      await server.drain(timeoutMs)
      await closeAll()
    }
    return {
      url: server.url,
      get routes() {
        return current.serving.routes
      },
      db,
      bodies,
      reload: () => control.reload(access),
      drain: () => drain(current.config.drainTimeoutMs),
      close: () => drain(0),
    }
  } catch (error) {
    await closeAll()
    throw error
  }
}

const bodyMemoryOf = ({ limits }: Config): number => limits?.bodyMemoryBytes ?? defaultBodyMemory()
