import { Registry } from 'prom-client'

/** Where every slice registers what it counts, in the form Prometheus reads. One per daemon, never the library's global one. */
export const createMetrics = (): Registry => new Registry()
