import { collectDefaultMetrics, Registry } from 'prom-client'

let ofProcess: Registry | undefined

/**
 * Creates the metrics registry, in Prometheus format. Each daemon has its own registry. The library's global registry
 * is never used. The metrics of the process (CPU, memory, delay of the event loop, garbage collection) exist once per
 * process, because their observers cannot be removed.
 */
export function createMetrics(): Registry {
  const metrics = new Registry()
  if (!ofProcess) {
    ofProcess = new Registry()
    collectDefaultMetrics({ register: ofProcess, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS })
  }
  for (const metric of ofProcess.getMetricsAsArray()) metrics.registerMetric(metric as never)
  return metrics
}

/** How often the delay of the event loop is sampled. */
const EVENT_LOOP_SAMPLE_MS = 20
