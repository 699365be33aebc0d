import type { Telemetry, TelemetryConfig, TelemetryDeps } from './contract.ts'

/**
 * Starts to send traces and metrics. The SDK is loaded only here, because it is large and most installations do not
 * use it.
 */
export async function openTelemetry(config: TelemetryConfig, deps: TelemetryDeps): Promise<Telemetry> {
  const { startOtlp } = await import('./otlp.ts')
  return startOtlp(config, deps)
}
