import { Registry } from 'prom-client'

/** The metrics registry, in Prometheus format. One for each daemon, never the library's global one. */
export const createMetrics = (): Registry => new Registry()
