import { newId } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import type { GuardDirection, IncidentAction, Severity } from '../../../shared/wire/incidents.ts'
import type { IncidentRow, OutboxEventRow } from '../../platform/db/tables.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { attackBlocked, attackDetected, canaryLeaked, dlpIncident, piiIncident } from '../../records/events/events.ts'

/** The request that caused an incident. */
export type IncidentOrigin = {
  caller: Pick<Caller, 'tenantId' | 'keyId' | 'userId'>
  requestId: string
  /** The route's path. */
  endpoint: string
  /** `trx-…`. If the request is rejected, the error contains the same id. */
  traceId: string
  /** Canonical name of the SMLTP policy. */
  policy: string
  conversationId?: string | undefined
  /** Null if no model was called. */
  model: string | null
}

type Common = {
  direction: GuardDirection
  severity: Severity
  category: string
  /** The action specified by the rule or policy. */
  action: IncidentAction
  /** False in monitor mode, where the action is only recorded. */
  enforced: boolean
}

type Rule = {
  ruleId: string
  ruleName: string
  /** The number of findings by type. */
  types: Readonly<Record<string, number>>
}

/** A rule match. */
export type RuleIncident = Common & Rule & { kind: 'dlp' | 'pii' | 'policy' }

/** A guard's finding in one request, without the matched text. */
export type GuardIncident =
  | RuleIncident
  | (Common & { kind: 'canary'; canaryId: string; action: 'log' | 'remove' | 'block' })
  | (Common & {
      kind: 'prompt_shield'
      shieldPolicy: string
      shieldMode: 'blocking' | 'monitor'
      /** 0 to 100 */
      riskScore: number
      /** 0 to 1 */
      confidence: number
    })

/**
 * Returns the records of a request's incidents: one row per incident, and a webhook event for most of them. They are
 * stored in the request's commit.
 */
export function incidentRecords(
  incidents: readonly GuardIncident[],
  origin: IncidentOrigin,
  nowMs: number,
): { incidents: IncidentRow[]; events: OutboxEventRow[] } {
  const rows = incidents.map((incident) => toRow(incident, origin, nowMs))
  const events = incidents.flatMap((incident, at) => toEvent(incident, rows[at] as IncidentRow, origin) ?? [])
  return { incidents: rows, events }
}

function toRow(incident: GuardIncident, origin: IncidentOrigin, nowMs: number): IncidentRow {
  const { types, ruleId, ruleName } = ruleOf(incident)
  return {
    id: newId(nowMs),
    tenant_id: origin.caller.tenantId,
    created_at: isoTime(nowMs),
    request_id: origin.requestId,
    trace_id: origin.traceId,
    api_key_id: origin.caller.keyId,
    user_id: origin.caller.userId,
    endpoint: origin.endpoint,
    model: origin.model,
    kind: incident.kind,
    rule_id: ruleId,
    rule_name: ruleName,
    category: incident.category,
    types: JSON.stringify(types),
    match_count: countOf(types),
    severity: incident.severity,
    direction: incident.direction,
    action: incident.action,
    enforced: incident.enforced ? 1 : 0,
    risk_score: incident.kind === 'prompt_shield' ? incident.riskScore : null,
    policy: origin.policy,
  }
}

function ruleOf(incident: GuardIncident): Rule {
  switch (incident.kind) {
    case 'prompt_shield':
      return { ruleId: incident.shieldPolicy, ruleName: incident.shieldPolicy, types: { [incident.category]: 1 } }
    case 'canary':
      return { ruleId: incident.canaryId, ruleName: 'Canary token', types: { CANARY: 1 } }
    case 'dlp':
    case 'pii':
    case 'policy':
      return incident
    default:
      return incident satisfies never
  }
}

const countOf = (types: Rule['types']) => Object.values(types).reduce((sum, count) => sum + count, 0)

/**
 * Returns the webhook event of an incident. Undefined for an attack that is only logged, and for a model that a policy
 * forbids.
 */
function toEvent(incident: GuardIncident, row: IncidentRow, origin: IncidentOrigin): OutboxEventRow | undefined {
  const { tenantId, keyId: apiKeyId, userId } = origin.caller
  const at = { tenantId, createdAt: row.created_at }
  const whose = { requestId: origin.requestId, userId, apiKeyId }
  const { direction, severity, category, action, enforced } = incident
  switch (incident.kind) {
    case 'prompt_shield': {
      if (action === 'log') return undefined
      const { riskScore, confidence, shieldMode, shieldPolicy: policy } = incident
      const finding = {
        traceId: origin.traceId,
        riskScore,
        verdict: action === 'block' ? ('BLOCK' as const) : ('FLAG' as const),
        attackCategory: category,
        confidence,
        severity,
        shieldMode,
        policy,
        direction,
        enforced,
        ...whose,
        ...(isOpaque(origin.conversationId) && { conversationId: origin.conversationId }),
        ...(origin.model !== null && { model: origin.model }),
      }
      return action === 'block' && enforced ? attackBlocked(at, finding, row.id) : attackDetected(at, finding, row.id)
    }
    case 'canary':
      return canaryLeaked(at, {
        canaryId: incident.canaryId,
        traceId: origin.traceId,
        riskScore: CERTAIN,
        verdict: incident.action === 'log' ? 'FLAG' : 'BLOCK',
        action: incident.action === 'remove' ? 'redact' : incident.action,
        enforced,
        model: origin.model ?? '',
        ...whose,
      })
    case 'dlp': {
      const { ruleId, ruleName } = incident
      const facts = { ruleId, ruleName, category, severity, direction, action, enforced, matchCount: row.match_count }
      return dlpIncident(at, { incidentId: row.id, ...facts, ...whose })
    }
    case 'pii': {
      const facts = { entityTypes: Object.keys(incident.types), count: row.match_count, direction, action, enforced }
      return piiIncident(at, { incidentId: row.id, ...facts, redactionMode: action, ...whose })
    }
    case 'policy':
      return undefined
    default:
      return incident satisfies never
  }
}

/**
 * Callers may name a conversation after a person, so events contain only opaque conversation ids: the gateway's own
 * ids, and UUIDs.
 */
const OPAQUE_ID = /^(conv-[\da-f]{24}|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})$/i

const isOpaque = (id: string | undefined): id is string => id !== undefined && OPAQUE_ID.test(id)

/** The risk score of a leaked canary. It is the maximum, because a text does not contain a canary by chance. */
const CERTAIN = 100
