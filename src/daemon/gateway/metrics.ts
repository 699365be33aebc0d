// Measures queues and circuits of the gateway for monitoring.
import type { Registry } from 'prom-client'
import type { Breaker } from '../models/breaker.ts'
import type { GateWatch } from '../platform/concurrency/gates.ts'
import { counterFamily, histogramFamily, readGauge } from '../platform/metrics/families.ts'
import type { ModelLabels } from '../platform/metrics/model-labels.ts'

/** `key` and `tenant` limit the running requests of one key or tenant, `provider` those at one provider. */
type Gate = 'key' | 'tenant' | 'provider'

const WAIT_BUCKETS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Creates the metrics of the gates. Returns what each gate reports to. */
export function createGateMetrics(registers: Registry[], waiting: () => Record<Gate, number>): Record<Gate, GateWatch> {
  const waits = histogramFamily({
    name: 'aigw_queue_wait_seconds',
    help: 'Time that requests waited for a slot, by gate. Requests that did not wait are not counted.',
    labelNames: ['gate'],
    buckets: WAIT_BUCKETS,
    registers,
  })
  const rejections = counterFamily({
    name: 'aigw_queue_rejections_total',
    help: 'Requests that were rejected because a queue was full or no slot became free in time, by gate.',
    labelNames: ['gate'],
    registers,
  })
  readGauge(
    { name: 'aigw_queue_depth', help: 'Requests that wait for a slot, by gate.', labelNames: ['gate'], registers },
    () => Object.entries(waiting()).map(([gate, value]) => ({ labels: { gate }, value })),
  )
  const watchOf = (gate: Gate): GateWatch => {
    const [wait, rejection] = [waits.cell(gate), rejections.cell(gate)]
    return {
      waited: (waitedMs) => wait.observe(waitedMs / 1000),
      rejected() {
        rejection.value += 1
      },
    }
  }
  return { key: watchOf('key'), tenant: watchOf('tenant'), provider: watchOf('provider') }
}

/** The key of a provider with several keys is a part of the circuit's name. */
const KEY_SUFFIX = / key \d+$/

/** Creates the metric of the circuits. A model that had an open circuit keeps its series. */
export function createCircuitMetrics(registers: Registry[], breaker: Pick<Breaker, 'open'>, models: ModelLabels): void {
  const seen = new Set<string>()
  readGauge(
    {
      name: 'aigw_circuits_open',
      help: 'Open circuits of a model, over all tenants. half_open: the next request is a probe.',
      labelNames: ['model', 'state'],
      registers,
    },
    () => {
      const counts = new Map<string, number>()
      for (const { modelId, state } of breaker.open()) {
        const model = models.of(modelId.replace(KEY_SUFFIX, ''))
        seen.add(model)
        counts.set(`${model}\n${state}`, (counts.get(`${model}\n${state}`) ?? 0) + 1)
      }
      return [...seen].flatMap((model) =>
        ['open', 'half_open'].map((state) => ({
          labels: { model, state },
          value: counts.get(`${model}\n${state}`) ?? 0,
        })),
      )
    },
  )
}
