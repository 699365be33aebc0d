import { z } from 'zod'
import { SUBSCRIBABLE_EVENTS, TEST_EVENT } from '../event-catalog.ts'
import { BUDGET_SCOPES } from './budgets.ts'
import { ATTEMPT_REASONS } from './chat.ts'
import { GUARD_DIRECTIONS, SEVERITIES } from './incidents.ts'

// Events contain identifiers, rule names and counts. They never contain the text of a prompt, an answer or a match.

const riskScore = z.int().meta({ description: '0 to 100' })
const direction = z
  .enum(GUARD_DIRECTIONS)
  .meta({ description: 'The location of the finding: the request, the content retrieved for it, or the answer' })

const enforced = z.boolean().meta({
  description: 'Whether `action` or `verdict` took effect; false if policy, rule or shield only monitor',
})

/** The account and the key of the request. */
const origin = {
  requestId: z.string(),
  userId: z.string(),
  apiKeyId: z.string(),
}

const ShieldFinding = z.object({
  traceId: z.string(),
  riskScore,
  verdict: z.enum(['FLAG', 'BLOCK']),
  attackCategory: z.string().meta({ example: 'prompt_injection' }),
  confidence: z.number().meta({ description: '0 to 1' }),
  severity: z.enum(SEVERITIES),
  shieldMode: z.enum(['blocking', 'monitor']),
  policy: z.string(),
  direction,
  enforced,
  ...origin,
  conversationId: z.string().optional(),
  model: z.string().optional(),
})

const outage = {
  provider: z.string(),
  model: z.string().meta({ description: 'The model, with its provider and, if it has several, its location' }),
  since: z.string().meta({ description: 'When it went down, ISO 8601' }),
}

/** The `data` of every event. */
export const EVENT_DATA = {
  'promptshield:attack:blocked': ShieldFinding,
  'promptshield:attack:detected': ShieldFinding,
  'promptshield:canary:leaked': z.object({
    canaryId: z.string(),
    traceId: z.string(),
    riskScore,
    verdict: z.enum(['FLAG', 'BLOCK']),
    action: z.enum(['log', 'redact', 'block']),
    enforced,
    model: z.string(),
    ...origin,
  }),
  'dlp:incident': z.object({
    incidentId: z.string(),
    ruleId: z.string(),
    ruleName: z.string(),
    category: z.string(),
    severity: z.enum(SEVERITIES),
    direction,
    action: z.string(),
    enforced,
    matchCount: z.int(),
    ...origin,
  }),
  'pii:incident': z.object({
    incidentId: z.string(),
    entityTypes: z.array(z.string()),
    count: z.int(),
    redactionMode: z.string(),
    direction,
    action: z.string(),
    enforced,
    ...origin,
  }),
  'api:limit_reached': z.object({
    apiKeyId: z.string(),
    keyName: z.string(),
    userId: z.string(),
    limitType: z.enum(['minute', 'hour', 'daily', 'monthly']),
    endpoint: z
      .string()
      .nullable()
      .meta({ description: 'The route that the limit belongs to; null for a limit of the key' }),
    limit: z.int(),
    used: z.int(),
    resetTime: z.string().meta({ description: 'The end of the window, ISO 8601' }),
  }),
  'api:model_failover': z.object({
    failedModel: z.string(),
    reason: z.enum(ATTEMPT_REASONS).meta({
      description: 'Why the attempt failed; `circuit_open` or `overloaded` for a skipped model',
    }),
    nextModel: z.string(),
    latencyMs: z.int().meta({ description: 'The duration of the failed attempt' }),
    userId: z.string(),
    apiKeyId: z.string(),
  }),
  'security:rejected_requests': z.object({
    address: z.string().nullable().meta({
      description: 'The client address, or the /64, /48 or /32 block of IPv6 addresses; null if it is unknown',
      example: '2001:db8::/64',
    }),
    routes: z.enum(['authenticated', 'public_verification']),
    count: z.int().meta({ description: 'The rejected requests of the address when the event was created' }),
    windowStart: z.string().meta({ description: 'The start of the minute in which they were counted, ISO 8601' }),
    windowSeconds: z.int(),
  }),
  'key:expiring': z.object({
    apiKeyId: z.string(),
    keyName: z.string(),
    userId: z.string(),
    expiresAt: z.string().meta({ description: 'ISO 8601' }),
  }),
  'budget:threshold': z.object({
    scope: z.enum(['user', 'key', ...BUDGET_SCOPES]).meta({ description: '`user`: the budget of an account' }),
    subject: z.string().meta({ description: 'The id of the account, key, group or tenant, or the tag' }),
    budgetId: z.string().nullable().meta({ description: 'Null for the budget of an account or a key' }),
    threshold: z.int().meta({ description: 'The percentage that was reached: 50, 80 or 100' }),
    dollarLimit: z.number(),
    currentSpend: z.number(),
    period: z.string().meta({ description: 'The month in UTC', example: '2026-01' }),
    resetTime: z.string().meta({ description: 'The end of the month, ISO 8601' }),
  }),
  'provider:down': z.object({
    ...outage,
    reason: z.enum(ATTEMPT_REASONS).meta({ description: 'Why the last call failed' }),
  }),
  'provider:recovered': z.object({
    ...outage,
    downSeconds: z.int().meta({ description: 'How long it was down' }),
  }),
  'index:failed': z.object({
    indexId: z.string(),
    indexName: z.string(),
    documents: z.int().meta({ description: 'The documents of the request that could not be added' }),
    requestId: z.string(),
    userId: z.string(),
    apiKeyId: z.string(),
  }),
  'evidence:degraded': z.object({
    lossId: z.string().meta({ description: 'The id in `GET /api/admin/evidence/losses`' }),
    cause: z.string().meta({ description: 'The cause of the loss' }),
    tenantId: z.string().nullable().meta({ description: 'The tenant whose chain is affected; null for the store' }),
    chain: z.string().nullable(),
    foundAt: z.string().meta({ description: 'ISO 8601' }),
  }),
  [TEST_EVENT]: z.object({ message: z.string(), endpointId: z.string() }),
} as const

export type EventType = keyof typeof EVENT_DATA
export type EventData<Type extends EventType> = z.infer<(typeof EVENT_DATA)[Type]>

/** The body posted to an endpoint. `type` determines the shape of `data`. */
export type WebhookEvent = {
  [Type in EventType]: {
    /** `evt_…`, or `evt_test_…` for a test event. All attempts send the same id. */
    id: string
    type: Type
    /** Unix seconds. */
    created: number
    data: EventData<Type>
  }
}[EventType]

const EVENT_TYPES = [...SUBSCRIBABLE_EVENTS, TEST_EVENT] as const

/** The envelope in responses. EVENT_DATA describes its `data`. */
export const EventEnvelope = z
  .object({ id: z.string(), type: z.enum(EVENT_TYPES), created: z.int(), data: z.looseObject({}) })
  .meta({ id: 'EventEnvelope' })
