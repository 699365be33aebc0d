// The configuration in force: that of the file, the environment and the flags, and the providers of the store.
import { GatewayError } from '../../shared/errors.ts'
import { STORED_PROVIDERS_LOOK_MS } from '../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../shared/time.ts'
import type { Reload } from '../../shared/wire/reload.ts'
import { reloaded } from '../config/changes.ts'
import { type Config, ConfigFaults } from '../config/config.ts'
import { ProviderFault, toProviderConfig } from '../config/stored-provider.ts'
import type { ProviderConfig } from '../models/config.ts'
import type { Db } from '../platform/db/db.ts'
import { engineOf } from '../platform/db/engine.ts'
import type { StoredProviderRow } from '../platform/db/tables.ts'
import type { Log } from '../platform/log.ts'
import { type MasterKey, SealBrokenError } from '../platform/secrets/seal.ts'
import { findProviders, openSettings, type ProviderSettings } from './provider-store.ts'

/** A provider of the store, as this daemon understands it. */
export type StoredProvider = {
  row: StoredProviderRow
  /** Undefined if the settings cannot be decrypted. */
  settings: ProviderSettings | undefined
  /** Undefined if the settings are unusable. */
  config: ProviderConfig | undefined
  problem: string | undefined
  /** Whether this daemon does not know the key of the settings. It then keeps the settings that it had before. */
  isLocked?: true
}

/** Puts a configuration in force. It must not fail, because the change is already recorded. */
export type Prepare = (config: Config) => () => void

export type Configuration = {
  /** The configuration in force, with the providers of the store. */
  current(): Config
  /** The configuration of this daemon alone, without the providers of the store. */
  own(): Config
  stored(): readonly StoredProvider[]
  /** From now on, changes are applied with `prepare`. On a shared store, also looks for changes of other daemons. */
  start(prepare: Prepare): void
  /**
   * Reads the configuration again and applies it.
   * @param record called before the configuration changes; if it fails, nothing changes
   * @throws CONFIG_INVALID
   */
  reload(record: (changes: Reload) => Promise<void>): Promise<Reload>
  /** Reads the providers of the store again and applies them. Call it after each change. */
  refresh(): Promise<void>
  close(): Promise<void>
}

export type ConfigurationDeps = {
  db: Db
  masterKey: MasterKey
  clock: Clock
  log: Log
  /** Reads flags, environment and file again. Undefined: there is nothing to reload. */
  loadConfig: (() => Config | ConfigFaults) | undefined
}

/** Reads the providers of the store. */
export async function openConfiguration(
  config: Config,
  { db, masterKey, clock, log, loadConfig }: ConfigurationDeps,
): Promise<Configuration> {
  let own = config
  let stored = (await findProviders(db)).map((row) => toStored(row))
  let prepare: Prepare = () => () => {}
  let timer: Timer | undefined
  let isClosed = false
  /** Whether the last look at the store failed. */
  let isStale = false
  // Two changes at once would each be prepared from the same state, and the first would be lost.
  let last: Promise<unknown> = Promise.resolve()
  warnOfShadowed()

  function exclusively<T>(run: () => Promise<T>): Promise<T> {
    const done = last.then(run)
    last = done.catch(() => {})
    return done
  }

  function toStored(row: StoredProviderRow, before?: StoredProvider): StoredProvider {
    let settings: ProviderSettings | undefined
    try {
      settings = openSettings(masterKey, row)
      return { row, settings, config: toProviderConfig(row.name, settings), problem: undefined }
    } catch (error) {
      if (!(error instanceof SealBrokenError) && !(error instanceof ProviderFault)) throw error
      const problem = error instanceof ProviderFault ? `${error.path}: ${error.message}` : error.message
      const isLocked = error instanceof SealBrokenError
      if (isLocked && before?.isLocked) return { ...before, row }
      log.error({ provider: row.name, problem }, 'a provider of the store is unusable; update or remove it')
      if (isLocked) return { row, settings: before?.settings, config: before?.config, problem, isLocked }
      return { row, settings, config: undefined, problem }
    }
  }

  function warnOfShadowed(): void {
    for (const { row } of stored)
      if (isNamedIn(own, row.name))
        log.warn({ provider: row.name }, 'the configuration defines a provider of the store, and takes precedence')
  }

  async function refresh(): Promise<void> {
    const rows = await findProviders(db)
    if (isSame(rows, stored) && !stored.some(({ isLocked }) => isLocked)) return
    const next = rows.map((row) => {
      const before = stored.find(({ row: { name } }) => name === row.name)
      // After a rotation of the master key, this daemon may learn the key of locked settings later.
      return before?.row.sealed === row.sealed && !before.isLocked ? before : toStored(row, before)
    })
    if (isSame(rows, stored) && next.every(({ isLocked }, at) => isLocked === stored[at]?.isLocked)) return
    const use = prepare(effective(own, next))
    use()
    stored = next
    log.info({ providers: rows.map(({ name }) => name) }, 'the providers of the store have changed')
    warnOfShadowed()
  }

  function schedule(): void {
    if (isClosed) return
    timer = clock.after(STORED_PROVIDERS_LOOK_MS, () => {
      exclusively(refresh)
        .then(() => {
          isStale = false
        })
        .catch((error: unknown) => {
          // The store may be unavailable for long, so only the first failure is logged.
          if (!isStale) log.warn({ error }, 'the providers of the store could not be read; retrying')
          isStale = true
        })
        .finally(schedule)
    })
  }

  return {
    current: () => effective(own, stored),
    own: () => own,
    stored: () => stored,
    start(given) {
      prepare = given
      // No other daemon can change an SQLite store.
      if (engineOf(db).name === 'postgres') schedule()
    },
    reload: (record) =>
      exclusively(async () => {
        const loaded = loadConfig?.() ?? own
        if (loaded instanceof ConfigFaults) throw new GatewayError('CONFIG_INVALID', refusal(loaded))
        const { config: next, changed, needsRestart } = reloaded(own, loaded)
        const use = prepare(effective(next, stored))
        await record({ changed, needsRestart })
        use()
        own = next
        log.info({ changed, needs_restart: needsRestart }, 'the configuration was reloaded')
        warnOfShadowed()
        return { changed, needsRestart }
      }),
    refresh: () => exclusively(refresh),
    async close() {
      isClosed = true
      timer?.cancel()
      await last
    },
  }
}

const refusal = ({ faults }: ConfigFaults): string =>
  `The configuration is invalid, so nothing was changed. Correct it and reload again:\n${faults.join('\n')}`

const isNamedIn = ({ providers }: Config, name: string): boolean => providers.some((one) => one.name === name)

/** The providers of the file take precedence over those of the store. */
const effective = (own: Config, stored: readonly StoredProvider[]): Config => ({
  ...own,
  providers: [
    ...own.providers,
    ...stored.flatMap(({ config }) => (config && !isNamedIn(own, config.name) ? config : [])),
  ],
})

const isSame = (rows: readonly StoredProviderRow[], stored: readonly StoredProvider[]): boolean =>
  rows.length === stored.length &&
  rows.every(({ name, sealed }, at) => stored[at]?.row.name === name && stored[at]?.row.sealed === sealed)
