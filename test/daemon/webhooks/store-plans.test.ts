import { expect, test } from 'vitest'
import {
  deliverMissed,
  findEndpointWithHeld,
  listDeliveries,
  listEndpoints,
  requeueDeliveries,
} from '../../../src/daemon/webhooks/store.ts'
import { newId } from '../../../src/shared/ids.ts'
import { sqliteEngine } from '../../engines.ts'
import { queryPlans } from '../../query-plan.ts'
import { endpointRow } from '../../webhook-rows.ts'
import { sharedStore } from '../knowledge/indexes/trained-store.ts'

const store = sharedStore(sqliteEngine, async () => undefined)
const endpoint = endpointRow({ tenant_id: newId() })
const { tenant_id, id } = endpoint
const AT = '2026-03-01T12:00:00.000Z'
const page = { page: 1, limit: 20, sortOrder: 'desc' } as const

test.each([
  ['all webhooks of a tenant', 'webhook_endpoints_by_age', (db: typeof store.db) => listEndpoints(db, tenant_id)],
  [
    'how many deliveries are held',
    'COVERING INDEX webhook_deliveries_held',
    (db: typeof store.db) => findEndpointWithHeld(db, tenant_id, id),
  ],
  [
    'how many deliveries are held for each',
    'COVERING INDEX webhook_deliveries_held',
    (db: typeof store.db) => listEndpoints(db, tenant_id),
  ],
  ['the log of a tenant', 'webhook_deliveries_by_age', (db: typeof store.db) => listDeliveries(db, tenant_id, page)],
  [
    'the log of a webhook',
    'webhook_deliveries_by_endpoint',
    (db: typeof store.db) => listDeliveries(db, tenant_id, { ...page, webhookId: id }),
  ],
  [
    'what can be recovered',
    'webhook_deliveries_by_endpoint',
    (db: typeof store.db) => requeueDeliveries(db, endpoint, { since: AT, now: AT }),
  ],
  [
    'what was missed',
    'webhook_deliveries_once',
    (db: typeof store.db) =>
      deliverMissed(db, endpoint, { types: ['pii:incident'], since: AT, now: Date.parse(AT), limit: 10 }),
  ],
])('SQLite finds %s through an index, without sorting', async (_, index, run) => {
  const plans = (await queryPlans(store.db, run)).join('\n')
  expect(plans).toContain(index)
  // The rows counted so far were found before.
  expect(plans).not.toMatch(/SCAN (?!counted)|TEMP B-TREE FOR ORDER/)
})
