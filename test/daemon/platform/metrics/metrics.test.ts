import { expect, test } from 'vitest'
import { addKey, addTenant, addUser } from '../../../accounts.ts'
import { startGateway } from '../../../harness.ts'

test("GET /metrics shows the daemon's counters only to the operator", async () => {
  const gateway = await startGateway()
  const { status, headers, text } = await gateway.call('GET', '/metrics')
  expect([status, headers['content-type']]).toEqual([200, expect.stringContaining('text/plain; version=0.0.4')])
  expect(text).toMatch(/^aigw_webhook_queue_depth 0$/m)
  expect((await gateway.call('GET', '/metrics', undefined, { key: null })).status).toBe(401)
  const { id: tenant_id } = await addTenant(gateway.app.db)
  const { secret: key } = await addKey(gateway.app.db, await addUser(gateway.app.db, { tenant_id, role: 'admin' }))
  expect((await gateway.call('GET', '/metrics', undefined, { key })).status).toBe(403)
})
