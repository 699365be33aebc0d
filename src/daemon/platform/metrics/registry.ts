import { Registry } from 'prom-client'

/**
 * Creates the metrics registry, in Prometheus format. Each daemon has its own registry and never uses the library's
 * global one.
 */
export const createMetrics = (): Registry => new Registry()
