import { z } from 'zod'
import { listQuery, objectId, oneOf, Pagination, storableText } from './common.ts'

const INCIDENT_KINDS = ['prompt_shield', 'canary', 'dlp', 'pii', 'policy'] as const
export const SEVERITIES = ['low', 'medium', 'high', 'critical'] as const
/**
 * The content that was checked: the request, retrieved content, or the answer. Retrieved content means passages and,
 * for the shield, also tool results.
 */
export const GUARD_DIRECTIONS = ['input', 'retrieved', 'output'] as const
/**
 * The actions are listed in ascending order of severity. Only the shield uses `flag`. With `flag`, the request
 * continues and an event is sent.
 */
export const INCIDENT_ACTIONS = ['log', 'flag', 'mask', 'remove', 'tokenize', 'block'] as const

export type IncidentKind = (typeof INCIDENT_KINDS)[number]
export type Severity = (typeof SEVERITIES)[number]
export type GuardDirection = (typeof GUARD_DIRECTIONS)[number]
export type IncidentAction = (typeof INCIDENT_ACTIONS)[number]

/** A finding of a guard in one request: its type and count, never the text itself. */
export const Incident = z
  .object({
    id: z.string(),
    createdAt: z.string(),
    requestId: z.string(),
    traceId: z.string().meta({ description: 'The `trace_id` of the rejection, if the request was rejected' }),
    apiKeyId: z.string(),
    userId: z.string(),
    endpoint: z.string(),
    model: z.string().nullable().meta({ description: 'Null if no model had been called' }),
    kind: z.enum(INCIDENT_KINDS),
    ruleId: z.string(),
    ruleName: z.string(),
    category: z.string().meta({ example: 'prompt_injection' }),
    types: z
      .record(z.string(), z.int())
      .meta({ description: 'The types of the findings, and how often each occurred', example: { EMAIL: 2 } }),
    count: z.int(),
    severity: z.enum(SEVERITIES),
    direction: z.enum(GUARD_DIRECTIONS),
    action: z.enum(INCIDENT_ACTIONS).meta({ description: 'The action of the rule' }),
    enforced: z.boolean().meta({ description: 'False if policy or rule only monitor, so that no action was taken' }),
    riskScore: z.int().nullable().meta({ description: 'The score of the prompt shield, 0 to 100' }),
    policy: z.string(),
  })
  .meta({ id: 'Incident' })
export type Incident = z.infer<typeof Incident>

const time = (name: string) =>
  z.iso.datetime({ offset: true, error: `${name} must be a time such as 2026-01-31T12:00:00Z` })

const period = { startDate: time('startDate').optional(), endDate: time('endDate').optional() }

export const ListIncidentsQuery = listQuery(['createdAt'], 50)
  .omit({ search: true })
  .extend({
    ...period,
    kind: oneOf('kind', INCIDENT_KINDS).optional(),
    severity: oneOf('severity', SEVERITIES).optional(),
    direction: oneOf('direction', GUARD_DIRECTIONS).optional(),
    action: oneOf('action', INCIDENT_ACTIONS).optional(),
    apiKeyId: objectId('apiKeyId').optional(),
    userId: objectId('userId').optional(),
    requestId: storableText('requestId').optional(),
  })
export const ListIncidentsResponse = z.object({
  success: z.literal(true),
  incidents: z.array(Incident),
  pagination: Pagination,
})

export const ShowIncidentResponse = z.object({ success: z.literal(true), incident: Incident })

export const CountIncidentsQuery = z.object(period)
export const CountIncidentsResponse = z.object({
  success: z.literal(true),
  total: z.int(),
  counts: z.array(
    z.object({
      kind: z.enum(INCIDENT_KINDS),
      severity: z.enum(SEVERITIES),
      action: z.enum(INCIDENT_ACTIONS),
      enforced: z.boolean(),
      count: z.int(),
    }),
  ),
})
