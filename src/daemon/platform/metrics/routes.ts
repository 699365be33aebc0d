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
      async handle() {
        const text = await metrics.metrics()
        // The library writes `Nan`, for example after a scrape without a sample. The format knows `NaN` only.
        return reply(200, text.replaceAll(' Nan\n', ' NaN\n'), { 'content-type': metrics.contentType })
      },
    }),
  ]
}
