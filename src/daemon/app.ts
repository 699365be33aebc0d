import { REJECTED_KEYS } from '../shared/spec-limits.ts'
import type { Clock } from '../shared/time.ts'
import type { Config } from './config/config.ts'
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
import type { Route } from './platform/http/route.ts'
import { type ConnectionLimits, createHttp } from './platform/http/server.ts'
import { systemRoutes } from './platform/http/system-routes.ts'
import { type Cron, startSchedule } from './platform/jobs/schedule.ts'
import type { Log } from './platform/log.ts'
import { createMetrics } from './platform/metrics/registry.ts'
import { metricsRoutes } from './platform/metrics/routes.ts'
import { openNames } from './platform/network/names.ts'
import { openMasterKey } from './platform/secrets/master-key.ts'
import { createRotation } from './platform/secrets/rotation.ts'
import { openRecords } from './records/room.ts'
import { knownPolicies, knownShieldPolicies, openSafety } from './safety/room.ts'
import { openWebhooks } from './webhooks/room.ts'

/** A running daemon. */
export type App = {
  url: string
  /** All routes that the daemon serves, for the OpenAPI document. */
  routes: readonly Route[]
  db: Db
  /** Tracks the memory that request bodies use. */
  bodies: BodyMemory
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
  { clock, log, cron, limits = {}, storeTimeouts = {}, extraction = {}, rankingProgram, shieldProgram }: AppDeps,
): Promise<App> {
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

    const models = open(openModels(config, { clock, log, resolve: names.ofOperator }))
    const { providers } = models
    const records = open(await openRecords(config, { db, masterKey, clock, log, metrics, resolve: names.ofOperator }))
    const { ledger, signingKeys, receipts, announceEvents: onEvents } = records
    const metering = open(openMetering(config, { db, ledger, clock, log, onEvents }))
    const { limiter, billing, budgets, prices, requireFreeLicense } = metering
    const identity = await openIdentity(config, {
      db,
      clock,
      log,
      signingKeys,
      knownPolicies,
      knownShieldPolicies,
      requireFreeLicense,
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
      providers,
      guards,
      policies,
      search,
      readText,
      ledger,
      billing,
      budgets,
      prices,
      isAccepted,
      receipts,
      limiter,
      masterKey,
      announceEvents: onEvents,
      clock,
      log,
    }
    const gateway = open(openGateway(config, ofChats))
    const columns = [records, webhooks, gateway].flatMap(({ sealedColumns }) => sealedColumns)
    const rotation = open(createRotation(db, { ...keySources, masterKey, columns }))

    const routes: Route[] = [
      ...systemRoutes({
        clock,
        checkStore: createStoreCheck({ db, clock, isWritable: ledger.isWritable }),
        isDraining: http.isDraining,
        lostHistory: records.lostHistory,
        allRoutes: () => routes,
      }),
      ...metricsRoutes({ metrics }),
      ...records.routes({ ...access, findUserNames, rotation }),
      ...metering.routes(access),
      ...[identity, safety, webhooks, knowledge, gateway].flatMap((room) => room.routes),
    ]
    const bodies = new BodyMemory(config.limits?.bodyMemoryBytes ?? defaultBodyMemory())
    const { listen } = config
    const { modelRequestsPerTenant } = gateway
    const cors = config.cors && createCors(config.cors)
    const ofServer = { authenticate, limiter, clock, log, listen, limits, bodies, modelRequestsPerTenant, cors }
    const server = open(await http.listen({ ...ofServer, routes }))
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
