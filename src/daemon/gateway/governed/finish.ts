// The end of every governed request: one ledger commit, regardless of the outcome.
import { isoTime } from '../../../shared/time.ts'
import type { Charge } from '../../metering/usage/billing.ts'
import type { ModelNames } from '../../models/names.ts'
import type { CacheEntryRow, ProviderMessageRow } from '../../platform/db/tables.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { Observed } from '../../platform/http/observed.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import { type Answered, type RequestEnd, toRequestEntry } from '../../records/evidence/request-entry.ts'
import type { EntryDraft, LedgerRecords } from '../../records/ledger/records.ts'
import type { GovernedDeps } from './deps.ts'
import { failoverRecords } from './failover-events.ts'
import type { ReplaySlot } from './idempotency.ts'
import type { Delivery, Refused } from './operation.ts'
import { CLIENT_LEFT_STATUS, errorCodeOf, isDenial, isOfClient, toErrorBody } from './refusal.ts'
import type { Trail } from './trail.ts'

/** How a governed request ended. */
export type Ending =
  /** The request has no result: it was rejected, it failed, or its client disconnected. */
  | { kind: 'refused'; error: unknown; refused?: Refused | undefined }
  /** The request has a complete or partial result from a model. */
  | {
      kind: 'delivered'
      delivery: Delivery
      /** The model that served the request, as `<provider>/<model>`. */
      model: string
      firstTokenMs: number
      charge: Charge
      reserved: LedgerRecords['reserved']
      replay: ReplaySlot | undefined
      /** Set if identical requests may get the answer too. */
      cacheEntry: CacheEntryRow | undefined
    }

/**
 * Stores all records of a request in one commit: its receipt with the bill, the spend, the key's counters, incidents,
 * failovers, their events, and the response for replays. Sets the bundle id in `context`.
 * @throws the ledger's error. In this case, nothing is stored, and the response must omit the receipt id.
 */
export async function finish(
  trail: Trail,
  ending: Ending,
  context: RequestContext,
  { ledger, names, clock }: Pick<GovernedDeps, 'ledger' | 'names' | 'clock'>,
): Promise<void> {
  context.bundleId = trail.bundleId
  try {
    await ledger.commit(toRecords(trail, ending, context, { names, clock }))
  } catch (error) {
    context.bundleId = undefined
    throw error
  }
  context.countersStored()
  context.observed = toObserved(trail, ending)
  for (const onDurable of trail.whenDurable) onDurable()
}

/** Returns the facts for metrics, traces and the request log. They contain no content and no text of the caller. */
function toObserved(trail: Trail, ending: Ending): Observed {
  const { operation, streamed, incidents: findings } = trail
  if (ending.kind === 'refused') {
    const { attempts } = trail
    return { operation, streamed, attempts, findings, error: errorCodeOf(ending.error), answer: undefined }
  }
  const { delivery, model, firstTokenMs, charge } = ending
  const { broken, usage, outcome } = delivery
  const { nanos, points } = charge.cost
  const cache = trail.cacheHit?.status
  return {
    operation,
    streamed,
    attempts: broken?.attempts ?? trail.attempts,
    findings,
    error: broken && errorCodeOf(broken.refusal),
    answer: { model, outcome, firstTokenMs, usage, nanos, points, cache },
  }
}

function toRecords(
  trail: Trail,
  ending: Ending,
  context: RequestContext,
  { names, clock }: Pick<GovernedDeps, 'names' | 'clock'>,
): LedgerRecords {
  const nowMs = clock.now()
  const latencyMs = Math.round(clock.monotonic() - trail.startedMonotonicMs)
  const failovers = failoverRecords(trail.attempts, context, nowMs)
  const entry = toEntry(trail, ending, { context, atMs: nowMs, latencyMs }, names)
  const records: LedgerRecords = { evidence: [...failovers.evidence, entry], counters: context.unstoredCounters() }
  if (trail.found.length > 0) records.incidents = trail.found.flatMap(({ incidents = [] }) => incidents)
  const events = [...trail.found.flatMap(({ events = [] }) => events), ...failovers.events]
  if (events.length > 0) records.events = events
  const messages = messagesOf(trail, nowMs)
  if (messages.length > 0) records.providerMessages = messages
  if (ending.kind === 'delivered') addResult(records, ending, trail.policy?.document.encryptBundle === true)
  return records
}

/** What the providers said about failed attempts. Most requests have no failed attempt. */
function messagesOf({ heads, tenantId, bundleId }: Trail, nowMs: number): readonly ProviderMessageRow[] {
  if (!heads.some((head) => head?.message !== undefined)) return NO_MESSAGES
  const common = { tenant_id: tenantId, entry_id: bundleId, created_at: isoTime(nowMs) }
  return heads.flatMap((head, attempt) =>
    head?.message === undefined ? [] : { ...common, attempt, message: head.message },
  )
}

const NO_MESSAGES: readonly ProviderMessageRow[] = []

/** Adds the records that exist only for a result: its cost, and the response for replays. */
function addResult(
  records: LedgerRecords,
  { delivery: { broken, response, stored }, charge, reserved, replay, cacheEntry }: Ending & { kind: 'delivered' },
  isSealed: boolean,
): void {
  records.spend = charge.spend
  if (reserved) records.reserved = reserved
  if (stored) records.response = stored
  if (cacheEntry) records.cacheEntry = cacheEntry
  if (!replay) return
  const { claim } = replay.fence
  if (claim !== undefined) records.claim = claim
  if (broken === undefined || broken.isBlocked) records.idempotency = replay.toRow(response, isSealed)
}

type EndFacts = Pick<RequestEnd, 'atMs' | 'latencyMs'> & { context: RequestContext }

function toEntry(trail: Trail, ending: Ending, facts: EndFacts, names: ModelNames): EntryDraft {
  return ending.kind === 'refused'
    ? toRefusedEntry(trail, ending, facts, names)
    : toRequestEntry(trail, toEnd(ending, facts))
}

function toRefusedEntry(
  trail: Trail,
  { error, refused }: Ending & { kind: 'refused' },
  { context, atMs, latencyMs }: EndFacts,
  names: ModelNames,
): EntryDraft {
  const body = refused ?? (isOfClient(error) ? undefined : toErrorBody(error, trail.errors, context))
  const wasCalled = trail.entitlements.length > 0
  const requestedModel = wasCalled ? trail.requestedModel : recordableName(trail, context.caller, names)
  return toRequestEntry(
    { ...trail, requestedModel },
    {
      atMs,
      latencyMs,
      result: isDenial(error) ? 'denied' : 'failure',
      status: body?.status ?? CLIENT_LEFT_STATUS,
      error: errorCodeOf(error),
      responseSha256: body?.sha256 ?? null,
      answered: undefined,
    },
  )
}

function toEnd(
  { delivery, model, firstTokenMs, charge }: Ending & { kind: 'delivered' },
  { atMs, latencyMs }: EndFacts,
): RequestEnd {
  const { outcome, usage, broken, response } = delivery
  const answered: Answered = { outcome, model, usage, cost: charge.cost, firstTokenMs }
  return {
    atMs,
    latencyMs,
    result: broken === undefined ? 'success' : broken.isBlocked ? 'denied' : 'failure',
    status: response.status,
    error: broken && errorCodeOf(broken.refusal),
    responseSha256: response.sha256,
    answered,
  }
}

/**
 * Returns the recordable name of a model that was not called. Other text from the caller must not enter the evidence.
 * The result is the requested name if configuration, provider, key or policy names it, `<provider>/*` if the provider
 * accepts any name, and null for an unknown model.
 */
function recordableName({ requestedModel, policy }: Trail, { settings }: Caller, names: ModelNames): string | null {
  const [found] = requestedModel === null ? [] : names.resolve(requestedModel)
  const target = found?.tiers[0]?.[0]
  if (requestedModel === null || !found || !target) return null
  const { allowedModels = [], deniedModels = [] } = policy?.document ?? {}
  const isNamed =
    found.name !== undefined ||
    target.provider.models !== undefined ||
    [settings.allowedModels, allowedModels, deniedModels].some((list) => list.includes(requestedModel))
  return isNamed ? requestedModel : `${target.provider.name}/*`
}
