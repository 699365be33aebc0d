import { Registry } from 'prom-client'

/**
 * Creates the metrics registry, in Prometheus format. Each daemon has its own registry. The library's global registry
 * is never used.
 */
export const createMetrics = (): Registry => new Registry()
