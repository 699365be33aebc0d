import type { Registry } from 'prom-client'
import { type Route, reply, route } from '../http/route.ts'

/**
 * Serves the metrics of this daemon for Prometheus. The metrics require the operator key, because the numbers cover all
 * tenants.
 */
export function metricsRoutes({ metrics }: { metrics: Registry }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/metrics',
      access: 'operator',
      errors: 'flat',
      summary: 'Show the metrics of this daemon in the Prometheus text format',
      tags: ['System'],
      responses: { 200: { description: 'The metrics', text: 'text/plain' } },
      handle: async () => reply(200, await metrics.metrics(), { 'content-type': metrics.contentType }),
    }),
  ]
}
