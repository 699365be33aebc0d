// Counts requests, and what they cost, for /metrics. Called once per request, after its last byte.
import type { Registry } from 'prom-client'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Observed, ObservedAnswer } from '../http/observed.ts'
import type { RequestEnd, RequestObserver } from '../http/request-observer.ts'
import { endpointOf, type Route } from '../http/route.ts'
import { type CounterCell, counterFamily, type HistogramCell, histogramFamily } from './families.ts'
import { type ModelLabels, NO_MODEL } from './model-labels.ts'
import { surfaceOf } from './surface.ts'

const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const FIRST_TOKEN_BUCKETS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
/** Maximum number of tenants with a label of their own. */
const TENANT_LABELS = 1_000
/** The label of paths without a route, and of tenants beyond the maximum. */
const OTHER = 'other'
const NANOS_PER_DOLLAR = 1e9

/** One route's series. They are resolved once, so that a request only looks up two texts. */
type RouteCells = {
  surface: string
  name: string
  requests: Map<string, CounterCell>
  durations: Map<string, HistogramCell>
}

const createRouteCells = (route: Route | undefined): RouteCells => ({
  surface: surfaceOf(route),
  name: route ? endpointOf(route) : OTHER,
  requests: new Map(),
  durations: new Map(),
})

type ModelCells = {
  firstToken: HistogramCell
  input: CounterCell
  output: CounterCell
  cacheRead: CounterCell
  cacheWrite: CounterCell
  reasoning: CounterCell
  dollars: CounterCell
  points: CounterCell
}

/** @param byTenant whether the operator asked for the label `tenant` */
export function createRequestMetrics(
  registers: Registry[],
  { models, byTenant }: { models: ModelLabels; byTenant: boolean },
): RequestObserver {
  const tenantLabel = byTenant ? ['tenant'] : []
  const requests = counterFamily({
    name: 'aigw_requests_total',
    help: 'Requests that have ended, by surface, route, model, HTTP status and outcome.',
    labelNames: ['surface', 'route', 'model', 'status', 'outcome', ...tenantLabel],
    registers,
  })
  const durations = histogramFamily({
    name: 'aigw_request_duration_seconds',
    help: 'Time from the head of a request to the last byte of its response.',
    labelNames: ['surface', 'route', 'model'],
    buckets: DURATION_BUCKETS,
    registers,
  })
  const firstTokens = histogramFamily({
    name: 'aigw_first_token_seconds',
    help: 'Time from the call of a model to its first output.',
    labelNames: ['model'],
    buckets: FIRST_TOKEN_BUCKETS,
    registers,
  })
  const tokens = counterFamily({
    name: 'aigw_tokens_total',
    help: 'Billed tokens. Input includes cache_read and cache_write, output includes reasoning.',
    labelNames: ['model', 'kind', ...tenantLabel],
    registers,
  })
  const dollars = counterFamily({
    name: 'aigw_cost_dollars_total',
    help: 'Cost of answers in US dollars, at the prices of the configuration.',
    labelNames: ['model', ...tenantLabel],
    registers,
  })
  const points = counterFamily({
    name: 'aigw_cost_points_total',
    help: 'Points that answers have used.',
    labelNames: ['model', ...tenantLabel],
    registers,
  })
  const attempts = counterFamily({
    name: 'aigw_model_attempts_total',
    help: 'Attempts to call a model, by status and reason of the failure.',
    labelNames: ['model', 'status', 'reason'],
    registers,
  })
  const failovers = counterFamily({
    name: 'aigw_failovers_total',
    help: 'Failovers to another model, by the failed model and the reason.',
    labelNames: ['model', 'reason'],
    registers,
  })
  const limits = counterFamily({
    name: 'aigw_limits_reached_total',
    help: 'Requests rejected by a limit, by the limit and its scope.',
    labelNames: ['limit', 'scope'],
    registers,
  })
  const findings = counterFamily({
    name: 'aigw_guard_findings_total',
    help: 'Findings of guards, by guard, direction, action and whether the action was enforced.',
    labelNames: ['guard', 'direction', 'action', 'enforced'],
    registers,
  })
  const cached = counterFamily({
    name: 'aigw_cached_answers_total',
    help: 'Answers from the answer cache, by model and use.',
    labelNames: ['model', 'use'],
    registers,
  })

  // A reload of the configuration replaces routes, and earlier ones must not stay in memory.
  const routes = new WeakMap<Route, RouteCells>()
  const withoutRoute = createRouteCells(undefined)
  const byModel = new Map<string, ModelCells>()
  const servedBy = new Map<string, CounterCell>()
  const tenants = new Set<string>()

  function cellsOfRoute(route: Route | undefined): RouteCells {
    if (route === undefined) return withoutRoute
    const known = routes.get(route)
    if (known) return known
    const added = createRouteCells(route)
    routes.set(route, added)
    return added
  }

  function tenantOf({ caller: { tenantId } }: Exchange): string {
    if (!tenants.has(tenantId)) {
      if (tenants.size >= TENANT_LABELS) return OTHER
      tenants.add(tenantId)
    }
    return tenantId
  }

  function cellsOfModel(model: string, tenant: string | undefined): ModelCells {
    const key = tenant === undefined ? model : `${model}\n${tenant}`
    const known = byModel.get(key)
    if (known) return known
    const own = tenant === undefined ? [] : [tenant]
    const added: ModelCells = {
      firstToken: firstTokens.cell(model),
      input: tokens.cell(model, 'input', ...own),
      output: tokens.cell(model, 'output', ...own),
      cacheRead: tokens.cell(model, 'cache_read', ...own),
      cacheWrite: tokens.cell(model, 'cache_write', ...own),
      reasoning: tokens.cell(model, 'reasoning', ...own),
      dollars: dollars.cell(model, ...own),
      points: points.cell(model, ...own),
    }
    byModel.set(key, added)
    return added
  }

  function addAnswer(answer: ObservedAnswer, cells: ModelCells, model: string): void {
    const { usage, nanos } = answer
    cells.dollars.value += nanos / NANOS_PER_DOLLAR
    cells.points.value += answer.points
    if (answer.cache !== undefined) {
      // The tokens and the first token belong to the request that called the model.
      cached.cell(model, answer.cache).value += 1
      return
    }
    cells.firstToken.observe(answer.firstTokenMs / 1000)
    cells.input.value += usage.inputTokens
    cells.output.value += usage.outputTokens
    cells.cacheRead.value += usage.cacheReadTokens
    cells.cacheWrite.value += usage.cacheWriteTokens
    cells.reasoning.value += usage.reasoningTokens
  }

  function addServed(model: string): void {
    let cell = servedBy.get(model)
    if (!cell) {
      cell = attempts.cell(model, 'served', 'none')
      servedBy.set(model, cell)
    }
    cell.value += 1
  }

  function addAttempts(all: readonly FailoverAttempt[]): void {
    for (let at = 0; at < all.length; at++) {
      const { model, status, reason = 'none' } = all[at] as FailoverAttempt
      const label = models.of(model)
      if (status === 'served') {
        addServed(label)
        continue
      }
      attempts.cell(label, status, reason).value += 1
      const next = all[at + 1]
      // Another target of the same model is a retry.
      if (next && next.model !== model) failovers.cell(label, reason).value += 1
    }
  }

  function addFindings({ findings: found }: Observed): void {
    for (const { kind, direction, action, enforced } of found)
      findings.cell(kind, direction, action, String(enforced)).value += 1
  }

  function addLimit({ admission }: Exchange, error: string): void {
    const reached = admission?.reached
    if (error === 'RATE_LIMIT_EXCEEDED') limits.cell(reached?.limit ?? 'minute', reached?.scope ?? 'address').value += 1
    else if (error === 'COMPLETION_LIMIT_EXCEEDED') limits.cell('points', 'account').value += 1
    else limits.cell('budget', 'account').value += 1
  }

  return {
    ended(exchange, { status, outcome, error, durationMs }: RequestEnd) {
      const { route, observed } = exchange
      const ofRoute = cellsOfRoute(route)
      const model = observed ? modelOf(observed, models) : NO_MODEL
      const tenant = byTenant ? tenantOf(exchange) : undefined
      const key = `${model}\n${status}\n${outcome}\n${tenant}`
      let counted = ofRoute.requests.get(key)
      if (!counted) {
        const own = tenant === undefined ? [] : [tenant]
        counted = requests.cell(ofRoute.surface, ofRoute.name, model, String(status), outcome, ...own)
        ofRoute.requests.set(key, counted)
      }
      counted.value += 1
      let duration = ofRoute.durations.get(model)
      if (!duration) {
        duration = durations.cell(ofRoute.surface, ofRoute.name, model)
        ofRoute.durations.set(model, duration)
      }
      duration.observe(durationMs / 1000)
      if (outcome === 'limited' && error !== undefined) addLimit(exchange, error)
      if (!observed) return
      if (observed.answer) addAnswer(observed.answer, cellsOfModel(model, tenant), model)
      if (observed.attempts.length > 0) addAttempts(observed.attempts)
      if (observed.findings.length > 0) addFindings(observed)
    },
  }
}

/** The label of the model that answered, or else of the last model that was tried. */
function modelOf({ answer, attempts }: Observed, models: ModelLabels): string {
  if (answer) return models.answered(answer.model)
  const last = attempts.at(-1)
  return last ? models.of(last.model) : NO_MODEL
}
