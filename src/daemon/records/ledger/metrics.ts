// Measures the commits of the ledger for monitoring.
import type { Registry } from 'prom-client'
import { counterFamily, histogramFamily } from '../../platform/metrics/families.ts'

export type LedgerMetrics = {
  committed(records: number, durationMs: number): void
  failed(): void
}

const BATCH_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500]
const COMMIT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/** Creates the metrics of the ledger. */
export function createLedgerMetrics(registers: Registry[]): LedgerMetrics {
  const batch = histogramFamily({
    name: 'aigw_ledger_batch_records',
    help: 'Records of requests per commit of the ledger.',
    buckets: BATCH_BUCKETS,
    registers,
  }).cell()
  const duration = histogramFamily({
    name: 'aigw_ledger_commit_seconds',
    help: 'Duration of a commit of the ledger.',
    buckets: COMMIT_BUCKETS,
    registers,
  }).cell()
  const failures = counterFamily({
    name: 'aigw_ledger_commit_failures_total',
    help: 'Commits of the ledger that failed.',
    registers,
  }).cell()
  return {
    committed(records, durationMs) {
      batch.observe(records)
      duration.observe(durationMs / 1000)
    },
    failed() {
      failures.value += 1
    },
  }
}
