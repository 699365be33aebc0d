import { expect, test } from 'vitest'
import { startGateway } from '../../../harness.ts'

test("GET /metrics shows the daemon's counters", async () => {
  const gateway = await startGateway()
  const { status, headers, text } = await gateway.call('GET', '/metrics')
  expect([status, headers['content-type']]).toEqual([200, expect.stringContaining('text/plain; version=0.0.4')])
  expect(text).toMatch(/^aigw_webhook_queue_depth 0$/m)
})
