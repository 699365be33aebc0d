import { z } from 'zod'
import { PAGE_LIMIT } from '../spec-limits.ts'
import { DAY_MS, isoTime } from '../time.ts'
import { listQuery, objectId, oneOf, Pagination, storableText } from './common.ts'

const LOG_SEVERITIES = ['info', 'warning', 'error', 'critical'] as const
const LOG_RESULTS = ['success', 'denied', 'failure'] as const

/**
 * The entry types that concern guards. GET /audit-logs shows only these types, while GET /activity-logs shows all
 * types.
 */
export const AUDIT_TYPES = [
  'api_access',
  'smltp_policy_management',
  'shield_policy_management',
  'guard_rule_management',
  'key_management',
  'evidence_management',
] as const

/** The type that is shown for an entry whose content was expunged. */
export const EXPUNGED = 'expunged'

const A_DAY = /^\d{4}-\d{2}-\d{2}$/

/** A time, or the start or end of a day. The value is normalised to ISO 8601 in UTC with milliseconds. */
const boundary = (name: string, addedMs: number) =>
  z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], {
      error: `${name} must be a day such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z`,
    })
    .transform((text) => isoTime(Date.parse(text) + (A_DAY.test(text) ? addedMs : 0)))

export const period = {
  startDate: boundary('startDate', 0).optional(),
  endDate: boundary('endDate', DAY_MS - 1).optional(),
}

/** A filter that must match the whole name. */
const word = (name: string) => storableText(name).max(256, { error: `${name} may have at most 256 characters` })

/** A status such as `404`, or `4xx` for a whole class. */
const httpStatus = z
  .string()
  .regex(/^[1-5](\d\d|xx)$/, { error: 'status must be an HTTP status such as 404, or a class such as 4xx' })
  .transform((text) => {
    const min = Number(text.replace('xx', '00'))
    return { min, max: text.endsWith('xx') ? min + 99 : min }
  })

/**
 * The query of GET /audit-logs and GET /activity-logs. `apiKeyId` and all later members are not part of the contract.
 */
export const ListLogsQuery = listQuery(['timestamp'], PAGE_LIMIT.large).extend({
  ...period,
  type: word('type').optional(),
  severity: oneOf('severity', LOG_SEVERITIES).optional(),
  userId: objectId('userId').optional(),
  complianceCategory: word('complianceCategory').optional(),
  outcome: oneOf('outcome', LOG_RESULTS).optional(),
  apiKeyId: objectId('apiKeyId').optional(),
  operation: word('operation').optional(),
  model: word('model').optional(),
  status: httpStatus.optional(),
  requestId: word('requestId').optional(),
  bundleId: word('bundleId').optional(),
})
export type ListLogsQuery = z.output<typeof ListLogsQuery>

/**
 * `now`, or the position from an earlier response. A position contains a time and, for each chain, the number of
 * entries that were already read.
 */
const LOG_POSITION =
  /^(now|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z(,(changes|requests-[0-9a-f]{12})(-[0-9a-f]{4})?:(0|[1-9]\d{0,14}))*)$/

/** The query of GET /activity-logs. */
export const ListActivityLogsQuery = ListLogsQuery.extend({
  after: z
    .string()
    .regex(LOG_POSITION, { error: 'after must be now, or the position of an earlier response' })
    .optional()
    .meta({ description: 'Only entries after this position: `now`, or the `position` of an earlier response' }),
})

/** One call to a model, in the log of its request. */
const LoggedAttempt = z
  .looseObject({
    model: z.string(),
    status: z.string().meta({ description: '`failed` or `served`', example: 'failed' }),
    reason: z
      .string()
      .optional()
      .meta({ description: 'Why the attempt failed, as in the response', example: 'timeout' }),
    providerStatus: z.int().optional().meta({ description: "The HTTP status of the provider's response to a failure" }),
    providerRequestId: z.string().optional().meta({ description: "The provider's own request id, if it sent one" }),
    providerMessage: z.string().optional().meta({
      description:
        "The provider's own message about the failure, cleaned. Only in GET /activity-logs with `requestId` or `bundleId`",
    }),
    latencyMs: z.int(),
  })
  .meta({ id: 'LoggedAttempt' })

/** One entry of the log. User names and addresses are the current values, because the log itself contains neither. */
const AuditLog = z
  .object({
    id: z.string(),
    timestamp: z.string(),
    type: z.string().meta({ example: 'smltp_policy_management' }),
    severity: z.enum(LOG_SEVERITIES).nullable(),
    description: z.string().meta({ example: 'External API: created policy "internal-eu"' }),
    user: z
      .object({ id: z.string(), name: z.string(), email: z.string() })
      .nullable()
      .meta({ description: 'Null if the user was deleted, or was the operator of the installation' }),
    metadata: z.looseObject({
      endpoint: z.string().optional(),
      operation: z.string().optional(),
      apiKeyId: z.string().nullable().optional(),
      requestId: z.string().optional(),
      attempts: z.array(LoggedAttempt).optional().meta({ description: 'The calls to models. Only of a request' }),
    }),
    complianceCategory: z.string().nullable(),
    outcome: z
      .enum(LOG_RESULTS)
      .nullable()
      .meta({ description: 'Null, like severity and complianceCategory, if the content was expunged' }),
  })
  .meta({ id: 'AuditLog' })

export const ActivityLog = AuditLog.extend({
  resourceType: z.string().nullable(),
  resourceId: z.string().nullable(),
}).meta({ id: 'ActivityLog' })
export type ActivityLog = z.infer<typeof ActivityLog>

/** The totals of a log may be estimates. */
const LogPagination = Pagination.extend({
  estimated: z
    .literal(true)
    .optional()
    .meta({ description: 'Present if `total`, `pages` and all counts are estimates' }),
}).meta({ id: 'LogPagination' })

const DateRange = z.object({ startDate: z.string(), endDate: z.string() })

export const ListAuditLogsResponse = z.object({
  success: z.literal(true),
  data: z.object({ logs: z.array(AuditLog), pagination: LogPagination, dateRange: DateRange }),
})

export const ListActivityLogsResponse = z.object({
  success: z.literal(true),
  data: z.object({
    logs: z.array(ActivityLog),
    pagination: LogPagination,
    summary: z.object({
      dateRange: DateRange,
      totalLogs: z.int(),
      severityBreakdown: z.record(z.string(), z.int()),
      typeBreakdown: z.record(z.string(), z.int()),
    }),
    position: z
      .string()
      .optional()
      .meta({ description: 'The position after these entries: the next `after`. Present only if `after` was given' }),
  }),
})
