import { IDEMPOTENCY_PURGE_MS } from '../shared/spec-limits.ts'
import type { Clock } from '../shared/time.ts'
import { purgeExpired } from './chat/idempotency.ts'
import { chatRoutes } from './chat/routes.ts'
import type { Config } from './config.ts'
import { lockDataDir, makeDataDir } from './db/data-dir-lock.ts'
import { type Db, migrateDatabase, openDatabase } from './db/database.ts'
import { createStoreCheck } from './db/store-check.ts'
import type { Route } from './http/route.ts'
import { type ConnectionLimits, type HttpServer, startHttpServer } from './http/server.ts'
import { startSchedule } from './jobs/schedule.ts'
import { createAuthenticator } from './keys/authenticate.ts'
import { keyRoutes } from './keys/routes.ts'
import { knowledgeRoutes } from './knowledge/routes.ts'
import { createLedger } from './ledger/ledger.ts'
import type { Log } from './log.ts'
import { localProvider } from './providers/local/extract.ts'
import { createProviderRegistry } from './providers/registry.ts'
import { systemRoutes } from './system/routes.ts'
import { ensureFirstStart } from './tenants/first-start.ts'

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

export type AppDeps = { clock: Clock; log: Log; limits?: Partial<ConnectionLimits> }

/**
 * Opens every resource in order, listens, and hands out what closes them in reverse.
 * @throws when the data directory is in use, the store cannot be opened or is newer than this binary, or the address is
 * taken; what was opened until then is closed again.
 */
export async function startApp(config: Config, { clock, log, limits = {} }: AppDeps): Promise<App> {
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
    const { createdKeyFile, warning } = await ensureFirstStart(db, {
      bootstrapKey: config.bootstrapKey,
      dataDir: config.dataDir,
      clock,
    })
    if (warning) log.warn({}, warning)
    if (createdKeyFile) log.info({ file: createdKeyFile }, 'created the administrator key')

    const ledger = createLedger({ db, clock, log })
    opened.push(() => ledger.close())
    const providers = createProviderRegistry(config.providers, { clock, log, builtIn: [localProvider()] })
    opened.push(() => providers.close())
    const jobs = startSchedule(
      [{ name: 'purge-idempotency', everyMs: IDEMPOTENCY_PURGE_MS, run: () => purgeExpired({ db, clock }) }],
      { clock, log },
    )
    opened.push(() => jobs.stop())
    const authenticator = createAuthenticator({ db, clock })

    let server: HttpServer | undefined
    const routes: Route[] = [
      ...systemRoutes({
        clock,
        checkStore: createStoreCheck({ db, clock }),
        isDraining: () => server?.isDraining() ?? false,
        allRoutes: () => routes,
      }),
      ...keyRoutes(),
      ...chatRoutes({ db, providers, ledger, clock, log }),
      ...knowledgeRoutes({ db, clock, log }),
    ]
    const listening = await startHttpServer({
      routes,
      authenticate: authenticator.authenticate,
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
