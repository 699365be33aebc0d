// The webhooks module: endpoints, and the dispatcher that delivers events to them.
import type { Registry } from 'prom-client'
import { createAddressList } from '../platform/http/client-address.ts'
import type { Route } from '../platform/http/route.ts'
import type { Http } from '../platform/http/server.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { Log } from '../platform/log.ts'
import type { ResolveHost } from '../platform/network/name-cache.ts'
import type { Names } from '../platform/network/names.ts'
import type { MasterKey } from '../platform/secrets/seal.ts'
import type { SealedColumn } from '../platform/secrets/sealed-column.ts'
import type { ChangeDeps } from '../records/audit/change.ts'
import { type CheckedTargets, createCheckedTargets } from './checked-targets.ts'
import type { WebhooksConfig } from './config.ts'
import { startDispatcher } from './dispatch/dispatcher.ts'
import { listenRoutes } from './listen.ts'
import { reportExpiringKeys, reportLosses } from './notices.ts'
import { purgeWebhooks, trimHeldDeliveries } from './purge.ts'
import { webhookRoutes } from './routes.ts'
import { createSelfAddressCheck } from './self-address.ts'
import { SIGNING_SECRET_COLUMNS } from './signing-secret.ts'
import { checkTarget, type TargetGuard } from './target-guard.ts'

export type WebhooksRoom = {
  /** Call this after adding events to the outbox. */
  wake(): void
  routes: Route[]
  sealedColumns: readonly SealedColumn[]
  jobs: Job[]
  close(): Promise<void>
}

/**
 * Returns the rules of webhooks for addresses that the operator configures, such as those of witnesses. Their names are
 * resolved by the system.
 */
export const openCheckedTargets = (
  config: Partial<WebhooksConfig>,
  { http, names }: { http: Pick<Http, 'port'>; names: Pick<Names, 'ofOperator'> },
): CheckedTargets => createCheckedTargets(toGuard(config, { http, resolve: names.ofOperator }))

function toGuard(
  { allowPrivate = false, allow = [], showPrivateBodies = false }: Partial<WebhooksConfig>,
  { http, resolve }: { http: Pick<Http, 'port'>; resolve: ResolveHost },
): TargetGuard {
  return {
    resolve,
    allowPrivate,
    allow: allow.length > 0 ? createAddressList(allow) : undefined,
    showPrivateBodies,
    isOwn: createSelfAddressCheck(http.port),
  }
}

/**
 * Starts the webhooks module and its deliveries. @param deps `access`: the dependencies of every administrative change
 */
export async function openWebhooks(
  config: Partial<WebhooksConfig>,
  deps: {
    access: ChangeDeps
    masterKey: MasterKey
    metrics: Registry
    http: Pick<Http, 'port' | 'isDraining'>
    names: Pick<Names, 'ofCaller' | 'ofTrustedCaller'>
    log: Log
  },
): Promise<WebhooksRoom> {
  const { access, masterKey, metrics, http, names, log } = deps
  const { db, clock } = access
  const { allowPrivate = false, allow = [] } = config
  const resolve = allowPrivate || allow.length > 0 ? names.ofTrustedCaller : names.ofCaller
  const guard = toGuard(config, { http, resolve })
  const dispatcher = await startDispatcher({ db, clock, log, guard, masterKey, metrics })
  const webhooks = {
    ...access,
    masterKey,
    checkTarget: (url: string) => checkTarget(url, { guard, clock }),
    onChange: dispatcher.endpointChanged,
  }
  const notices = { db, clock, announceEvents: dispatcher.wake }
  return {
    wake: dispatcher.wake,
    sealedColumns: SIGNING_SECRET_COLUMNS,
    routes: [...webhookRoutes(webhooks), ...listenRoutes({ ...webhooks, isDraining: http.isDraining })],
    jobs: [
      { name: 'purge-webhooks', cron: '40 * * * *', run: () => purgeWebhooks({ db, clock }) },
      { name: 'report-expiring-keys', cron: '15 * * * *', run: () => reportExpiringKeys(notices) },
      { name: 'report-losses', cron: '* * * * *', run: () => reportLosses(notices) },
      { name: 'drop-held-webhooks', cron: '* * * * *', run: () => trimHeldDeliveries({ db }) },
    ],
    close: dispatcher.close,
  }
}
