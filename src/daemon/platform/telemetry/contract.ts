// Traces and metrics for an OpenTelemetry collector.
import type { Clock } from '../../../shared/time.ts'
import type { RequestObserver } from '../http/request-observer.ts'
import type { Log } from '../log.ts'

export type TelemetryConfig = {
  /** The base URL of a collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`. */
  endpoint: string
  headers: Readonly<Record<string, string>>
  /** The share of the traces that begin at the gateway, from 0 to 1. A client's trace keeps the client's decision. */
  sampleRatio: number
}

/** Traces and measures requests. */
export type Telemetry = RequestObserver & {
  /** Sends what is left, within a short time. */
  close(): Promise<void>
}

export type TelemetryDeps = {
  clock: Clock
  log: Log
  /** The name of a model as a label, which callers cannot choose freely. */
  modelOf(modelId: string): string
  /** Whether the operator asked for labels with the tenant. */
  byTenant: boolean
  /** By default a minute. */
  exportEveryMs?: number
}
