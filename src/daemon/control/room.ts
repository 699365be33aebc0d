// The control module: the configuration in force, its reload, and the providers that the operator adds.
import type { Config } from '../config/config.ts'
import type { Route } from '../platform/http/route.ts'
import type { SealedColumn } from '../platform/secrets/sealed-column.ts'
import { type ChangeDeps, recordLocalChange } from '../records/audit/change.ts'
import { type Configuration, type ConfigurationDeps, openConfiguration } from './configuration.ts'
import { type ProviderDeps, providerRoutes } from './provider-routes.ts'
import { findOperatorTenant, PROVIDER_COLUMN } from './provider-store.ts'
import { reloadActivity, reloadRoutes } from './reload-routes.ts'

export type ControlRoom = Pick<Configuration, 'current' | 'start' | 'close'> & {
  routes(deps: ChangeDeps & Pick<ProviderDeps, 'testProvider'>): Route[]
  /** Reloads after a signal. Never throws: a fault is logged, and the earlier configuration stays in force. */
  reload(deps: ChangeDeps): Promise<void>
  sealedColumns: readonly SealedColumn[]
}

/** The endpoint of the log entries of changes that a signal made. */
const SIGNAL = 'SIGHUP'

/** Opens the module before all others, because their configuration includes the providers of the store. */
export async function openControl(config: Config, deps: ConfigurationDeps): Promise<ControlRoom> {
  const { db, masterKey, clock, log } = deps
  const configuration = await openConfiguration(config, deps)
  return {
    current: configuration.current,
    start: configuration.start,
    routes: (access) => [
      ...reloadRoutes({ ...access, configuration }),
      ...providerRoutes({ ...access, clock, masterKey, configuration }),
    ],
    async reload(access) {
      try {
        await configuration.reload(async (changes) => {
          const tenantId = await findOperatorTenant(db)
          if (tenantId === undefined || changes.changed.length === 0) return
          await recordLocalChange(access, { tenantId, endpoint: SIGNAL }, reloadActivity(changes))
        })
      } catch (error) {
        log.error({ error }, 'the configuration was not reloaded; the earlier one stays in force')
      }
    },
    sealedColumns: [PROVIDER_COLUMN],
    close: configuration.close,
  }
}
