// Sends traces and metrics by the SDK of OpenTelemetry, with the names of its conventions for generative AI.
import { randomUUID } from 'node:crypto'
import {
  type Attributes,
  type Context,
  DiagLogLevel,
  defaultTextMapGetter,
  defaultTextMapSetter,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-base'
import { INTERFACE_VERSION } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { Exchange } from '../http/exchange.ts'
import type { CallTrace, Observed, RequestTrace } from '../http/observed.ts'
import type { RequestEnd } from '../http/request-observer.ts'
import type { Telemetry, TelemetryConfig, TelemetryDeps } from './contract.ts'

const EXPORT_EVERY_MS = 60_000
const EXPORT_TIMEOUT_MS = 10_000
/** The maximum time that the shutdown waits for the collector. */
const CLOSE_MS = 2_000
const NANOS_PER_DOLLAR = 1e9
/** The bounds that the conventions recommend, in seconds and in tokens. */
const DURATION_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const REQUEST_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const FIRST_TOKEN_BOUNDS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const TOKEN_BOUNDS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]

/** The names of operations in the conventions. Operations without a name there keep theirs. */
const OPERATIONS: Readonly<Record<string, string>> = { 'chat.completion': 'chat', embedding: 'embeddings' }
/** The names of providers in the conventions, by our well-known names. */
const PROVIDERS: Readonly<Record<string, string>> = {
  azure: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  google: 'gcp.gemini',
  mistral: 'mistral_ai',
  vertex: 'gcp.vertex_ai',
  xai: 'x_ai',
}

const propagator = new W3CTraceContextPropagator()

/** Starts the SDK. Failures to send are logged and never affect a request. */
export function startOtlp(
  { endpoint, headers, sampleRatio }: TelemetryConfig,
  { clock, log, modelOf, byTenant, exportEveryMs = EXPORT_EVERY_MS }: TelemetryDeps,
): Telemetry {
  const warn = (message: string) => log.warn({ detail: message }, 'telemetry could not be sent')
  const ignore = () => {}
  diag.setLogger(
    { error: warn, warn, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  )
  const base = endpoint.replace(/\/+$/, '')
  const to = (path: string) => ({ url: `${base}${path}`, headers: { ...headers }, timeoutMillis: EXPORT_TIMEOUT_MS })
  // Without an id of its own, the counters of several daemons would be one series.
  const resource = resourceFromAttributes({
    'service.name': 'aigw',
    'service.version': INTERFACE_VERSION,
    'service.instance.id': randomUUID(),
  }).merge(detectResources({ detectors: [envDetector] }))
  const traces = new BasicTracerProvider({
    resource,
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(to('/v1/traces')))],
  })
  const reader = new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter(to('/v1/metrics')),
    exportIntervalMillis: exportEveryMs,
    exportTimeoutMillis: Math.min(EXPORT_TIMEOUT_MS, exportEveryMs),
  })
  const meters = new MeterProvider({ resource, readers: [reader] })
  const tracer = traces.getTracer('aigw')
  const meter = meters.getMeter('aigw')
  const histogram = (name: string, unit: string, description: string, bounds: number[]) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: bounds } })
  const requests = histogram('http.server.request.duration', 's', 'Duration of HTTP requests.', REQUEST_BOUNDS)
  const calls = histogram('gen_ai.client.operation.duration', 's', 'Duration of calls to models.', DURATION_BOUNDS)
  const tokens = histogram('gen_ai.client.token.usage', '{token}', 'Tokens of an answer.', TOKEN_BOUNDS)
  const firstToken = histogram(
    'gen_ai.server.time_to_first_token',
    's',
    'Time from the call of a model to its first output.',
    FIRST_TOKEN_BOUNDS,
  )

  return {
    began(exchange) {
      exchange.trace = new TracedRequest(tracer, exchange, clock)
    },
    ended(exchange, end) {
      const traced = exchange.trace as TracedRequest
      const tenant = byTenant && exchange.caller.tenantId !== '' ? { 'aigw.tenant.id': exchange.caller.tenantId } : {}
      const facts = factsOf(exchange, end)
      requests.record(end.durationMs / 1000, facts)
      for (const { operation, provider, modelId, startMs, endMs, reason } of traced.calls) {
        const labels = labelsOf(operation, provider, modelOf(modelId))
        calls.record(((endMs ?? clock.now()) - startMs) / 1000, { ...labels, ...(reason && { 'error.type': reason }) })
      }
      const served = traced.calls.findLast(({ reason }) => reason === undefined) ?? traced.calls.at(-1)
      const answer = exchange.observed?.answer
      if (served && answer && answer.cache === undefined) {
        const labels = labelsOf(served.operation, served.provider, modelOf(served.modelId))
        tokens.record(answer.usage.inputTokens, { ...labels, 'gen_ai.token.type': 'input' })
        tokens.record(answer.usage.outputTokens, { ...labels, 'gen_ai.token.type': 'output' })
        firstToken.record(answer.firstTokenMs / 1000, labels)
        served.span.setAttributes(usageOf(answer))
      }
      traced.end({ ...facts, ...tenant }, exchange.observed, end)
    },
    async close() {
      const sent = Promise.allSettled([traces.shutdown(), meters.shutdown()])
      await new Promise<void>((resolve) => {
        const late = clock.after(CLOSE_MS, resolve)
        sent.then(() => {
          late.cancel()
          resolve()
        })
      })
    },
  }
}

type Called = {
  span: Span
  operation: string
  provider: string
  modelId: string
  startMs: number
  endMs: number | undefined
  reason: string | undefined
}

/** The span of a request, and the spans of its calls to models. All of them end with the request. */
class TracedRequest implements RequestTrace {
  readonly traceId: string
  readonly calls: Called[] = []
  readonly #tracer: Tracer
  readonly #clock: Clock
  readonly #span: Span
  readonly #context: Context

  constructor(tracer: Tracer, { request }: Exchange, clock: Clock) {
    const parent = propagator.extract(ROOT_CONTEXT, request.headers, defaultTextMapGetter)
    this.#tracer = tracer
    this.#clock = clock
    this.#span = tracer.startSpan(request.method ?? '', { kind: SpanKind.SERVER, startTime: clock.now() }, parent)
    this.#context = trace.setSpan(parent, this.#span)
    this.traceId = this.#span.spanContext().traceId
  }

  beginCall({ operation, provider, model }: { operation: string; provider: string; model: string }): CallTrace {
    const startMs = this.#clock.now()
    const [name, of] = [OPERATIONS[operation] ?? operation, PROVIDERS[provider] ?? provider]
    const options = { kind: SpanKind.CLIENT, startTime: startMs, attributes: labelsOf(name, of, model) }
    const span = this.#tracer.startSpan(`${name} ${model}`, options, this.#context)
    const modelId = `${provider}/${model}`
    const call: Called = { span, operation: name, provider: of, modelId, startMs, endMs: undefined, reason: undefined }
    this.calls.push(call)
    // Only `traceparent` is passed on. The state of other tracing systems stays inside of the organisation.
    const carrier: { traceparent?: string } = {}
    propagator.inject(trace.setSpan(this.#context, span), carrier, defaultTextMapSetter)
    return {
      headers: carrier.traceparent === undefined ? [] : ['traceparent', carrier.traceparent],
      end: (reason) => {
        call.endMs ??= this.#clock.now()
        call.reason ??= reason
      },
    }
  }

  end(facts: Attributes, observed: Observed | undefined, { outcome, error }: RequestEnd): void {
    const nowMs = this.#clock.now()
    for (const { span, endMs = nowMs, reason } of this.calls) {
      if (reason !== undefined) {
        span.setAttribute('error.type', reason)
        span.setStatus({ code: SpanStatusCode.ERROR })
      }
      span.end(endMs)
    }
    this.#span.updateName([facts['http.request.method'], facts['http.route']].filter(Boolean).join(' '))
    this.#span.setAttributes({ ...facts, 'aigw.outcome': outcome })
    if (observed && observed.attempts.length > 1) this.#span.setAttribute('aigw.attempts', observed.attempts.length)
    if (outcome === 'failed') this.#span.setStatus({ code: SpanStatusCode.ERROR, ...(error && { message: error }) })
    this.#span.end(nowMs)
  }
}

const labelsOf = (operation: string, provider: string, model: string): Attributes => ({
  'gen_ai.operation.name': operation,
  'gen_ai.provider.name': provider,
  'gen_ai.request.model': model,
})

/** Unknown methods share a name, as the conventions demand. */
const METHODS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])

const factsOf = ({ route, request }: Exchange, { status, error }: RequestEnd): Attributes => ({
  'http.request.method': METHODS.has(request.method) ? request.method : '_OTHER',
  ...(route && { 'http.route': route.path }),
  'http.response.status_code': status,
  ...(error !== undefined && { 'error.type': error }),
})

const usageOf = ({ model, outcome, usage, nanos }: NonNullable<Observed['answer']>): Attributes => ({
  'gen_ai.response.model': model.slice(model.indexOf('/') + 1),
  'gen_ai.response.finish_reasons': [outcome],
  'gen_ai.usage.input_tokens': usage.inputTokens,
  'gen_ai.usage.output_tokens': usage.outputTokens,
  'gen_ai.usage.cache_read.input_tokens': usage.cacheReadTokens,
  'gen_ai.usage.cache_creation.input_tokens': usage.cacheWriteTokens,
  'aigw.cost_dollars': nanos / NANOS_PER_DOLLAR,
})
