import type { KyselyPlugin } from 'kysely'
import { Registry } from 'prom-client'
import type { Db } from '../../../src/daemon/platform/db/db.ts'
import { insertRows } from '../../../src/daemon/platform/db/insert-rows.ts'
import type { OutboxEventRow, WebhookDeliveryRow, WebhookEndpointRow } from '../../../src/daemon/platform/db/tables.ts'
import { createMasterKey } from '../../../src/daemon/platform/secrets/seal.ts'
import { type Dispatcher, startDispatcher } from '../../../src/daemon/webhooks/dispatch/dispatcher.ts'
import { sealSigningSecret } from '../../../src/daemon/webhooks/signing-secret.ts'
import type { TargetGuard } from '../../../src/daemon/webhooks/target-guard.ts'
import { newId } from '../../../src/shared/ids.ts'
import { isoTime } from '../../../src/shared/time.ts'
import type { TestEngine, TestStore } from '../../engines.ts'
import { createFakeClock, type FakeClock } from '../../fake-clock.ts'
import type { LogLine } from '../../harness.ts'
import { closeAfterTest } from '../../leftovers.ts'
import { type Reaction, type Receiver, type ReceiverOptions, startReceiver } from './receiver.ts'

/** Less than the timeout of a test, so that a hanging test reports its state. */
const HANG_MS = 300_000

export const SECRET = 'whsec_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'
const masterKey = createMasterKey('ab'.repeat(32))
const loopback: TargetGuard = {
  resolve: async () => ['127.0.0.1'],
  allowPrivate: true,
  showPrivateBodies: true,
}

export type World = {
  db: Db
  clock: FakeClock
  tenantId: string
  log: LogLine[]
  metrics: Registry
  /** @param plugin observes the queries of this dispatcher */
  start(plugin?: KyselyPlugin): Promise<Dispatcher>
  endpoint(url: string, fields?: Partial<WebhookEndpointRow>): Promise<WebhookEndpointRow>
  /** Stores events and returns them without waking a dispatcher. */
  events(count: number, fields?: Partial<OutboxEventRow>): Promise<OutboxEventRow[]>
  endpointNow(id: string): Promise<WebhookEndpointRow>
  deliveries(): Promise<WebhookDeliveryRow[]>
  /** Polls the store and resolves once the deliveries match. */
  until(ready: (deliveries: WebhookDeliveryRow[]) => boolean): Promise<WebhookDeliveryRow[]>
  /** Resolves once a timer is due in exactly this time: a dispatcher has then read the store. */
  timerIn(ms: number): Promise<void>
  receiver(reaction?: Reaction, options?: ReceiverOptions): Promise<Receiver>
}

/** A store with one tenant, and dispatchers on it that share a fake clock. */
export async function openWorld(engine: TestEngine): Promise<World> {
  const store: TestStore = await engine.open()
  closeAfterTest(store)
  const { db } = store
  const clock = createFakeClock()
  const tenantId = newId()
  const log: LogLine[] = []
  const metrics = new Registry()
  const created_at = isoTime(clock.now())
  await db
    .insertInto('tenants')
    .values({ id: tenantId, name: 'T', status: 'Active', created_at, updated_at: created_at, search_text: 't' })
    .execute()
  const line = (level: LogLine['level']) => (facts: object, message: string) =>
    void log.push({ level, facts: { ...facts }, message })
  const logs = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
  let started = 0
  const deliveries = () => db.selectFrom('webhook_deliveries').selectAll().orderBy('created_at').orderBy('id').execute()

  return {
    db,
    clock,
    tenantId,
    log,
    metrics,
    async start(plugin) {
      const deps = { db: plugin ? db.withPlugin(plugin) : db, clock, log: logs, guard: loopback, masterKey }
      const dispatcher = await startDispatcher({ ...deps, metrics: started++ === 0 ? metrics : new Registry() })
      closeAfterTest({
        async close() {
          let isClosed = false
          const closed = dispatcher.close().finally(() => {
            isClosed = true
          })
          // Pending attempts are aborted when their timeout passes.
          while (!isClosed) {
            await turns(1)
            clock.advance(1_000)
          }
          await closed
        },
      })
      return dispatcher
    },
    async endpoint(url, fields = {}) {
      const id = newId()
      const row: WebhookEndpointRow = {
        id,
        tenant_id: tenantId,
        url,
        description: '',
        events: '["*"]',
        enabled: 1,
        disabled_reason: null,
        failure_count: 0,
        held_dropped: 0,
        secret: sealSigningSecret(masterKey, { id, tenant_id: tenantId }, SECRET),
        previous_secret: null,
        previous_secret_until: null,
        created_at,
        updated_at: created_at,
        last_delivery_at: null,
        last_status: null,
        ...fields,
      }
      await insertRows(db, 'webhook_endpoints', [row])
      return row
    },
    async events(count, fields = {}) {
      const rows = Array.from({ length: count }, () => ({
        id: `evt_${newId()}`,
        tenant_id: tenantId,
        type: 'api:model_failover',
        created_at: isoTime(clock.now()),
        data: JSON.stringify({ failedModel: 'a/b', reason: 'timeout', nextModel: 'c/d' }),
        ...fields,
      }))
      await insertRows(db, 'outbox_events', rows)
      return rows
    },
    endpointNow: (id) => db.selectFrom('webhook_endpoints').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
    deliveries,
    async until(ready) {
      const giveUpAt = performance.now() + HANG_MS
      while (performance.now() < giveUpAt) {
        const rows = await deliveries()
        if (ready(rows)) return rows
        await turns(2)
      }
      const [rows, errors] = [await deliveries(), log.filter(({ level }) => level === 'error')]
      throw new Error(`not reached: ${JSON.stringify(rows.slice(0, 20))}, ${String(errors[0]?.facts.error)}`)
    },
    async timerIn(ms) {
      while (!clock.dueIn(ms)) await turns(1)
    },
    async receiver(reaction, options) {
      const made = await startReceiver(reaction, options)
      closeAfterTest(made)
      return made
    },
  }
}

export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** Every delivery is in one of these states, and unclaimed. */
export const all =
  (...states: WebhookDeliveryRow['state'][]) =>
  (rows: readonly WebhookDeliveryRow[]): boolean =>
    rows.length > 0 && rows.every(({ state, lease_owner }) => states.includes(state) && lease_owner === null)
