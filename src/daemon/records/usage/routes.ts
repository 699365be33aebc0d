// The routes that report usage.
import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { LOG_WINDOW_DAYS } from '../../../shared/spec-limits.ts'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import {
  CostReportQuery,
  CostReportResponse,
  ReconcileUsageQuery,
  ReconcileUsageResponse,
  ReportUsageQuery,
  ReportUsageResponse,
  type UsageGroup,
} from '../../../shared/wire/usage.ts'
import type { Db } from '../../platform/db/db.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { costReport } from './cost-report.ts'
import { reconcile } from './reconcile.ts'
import { AMOUNTS, DAY_CHARS } from './usage-days.ts'

/** Maximum number of rows of a report. */
const USAGE_ROWS = 10_000
const NANOS_PER_DOLLAR = 1e9
const MONTH_CHARS = '2026-11'.length

const COLUMNS = { day: 'day', user: 'user_id', key: 'api_key_id', model: 'model' } as const satisfies Record<
  UsageGroup,
  string
>

export function usageRoutes({ db, clock }: { db: Db; clock: Clock }): Route[] {
  /** A comparison reads the log of a month, so a daemon runs one at a time. */
  let isReconciling = false
  return [
    route({
      method: 'GET',
      path: '/api/admin/usage/reconcile',
      access: 'analytics',
      errors: 'structured',
      tags: ['Usage'],
      summary: 'Compare the billed sums of a month with the costs in the signed receipts',
      query: ReconcileUsageQuery,
      responses: {
        200: { description: 'The differences; none if all bills match', schema: ReconcileUsageResponse },
        503: { description: 'Another comparison is running', schema: StructuredError },
      },
      async handle({ caller: { tenantId }, query: { month }, signal }) {
        if (isReconciling)
          throw new GatewayError('OVERLOADED', 'Another comparison of bills is running. Retry later.', {
            retryAfterSeconds: 10,
          })
        isReconciling = true
        try {
          return reply(200, await reconcile({ db, clock }, { tenantId, month, signal }))
        } finally {
          isReconciling = false
        }
      },
    }),
    route({
      method: 'GET',
      path: '/api/admin/usage',
      access: 'analytics',
      errors: 'structured',
      tags: ['Usage'],
      summary: 'Sum billed requests, tokens, points and dollars by day, user, key or model',
      query: ReportUsageQuery,
      responses: { 200: { description: 'The sums, ordered by the groups', schema: ReportUsageResponse } },
      async handle({ caller: { tenantId }, query }) {
        const { startDate, endDate, groupBy, userId, apiKeyId, model } = query
        const end = endDate ?? isoTime(clock.now()).slice(0, DAY_CHARS)
        const start = startDate ?? isoTime(Date.parse(end) - (LOG_WINDOW_DAYS - 1) * DAY_MS).slice(0, DAY_CHARS)
        if (start > end) throw invalidField('startDate', 'startDate must not be after endDate.', start)
        const columns = groupBy.map((group) => COLUMNS[group])
        let sums = db
          .selectFrom('usage_days')
          .select(columns)
          .select(({ fn }) => AMOUNTS.map((amount) => fn.sum<number>(amount).as(amount)))
          .where('tenant_id', '=', tenantId)
          .where('day', '>=', start)
          .where('day', '<=', end)
          .groupBy(columns)
          .limit(USAGE_ROWS + 1)
        for (const column of columns) sums = sums.orderBy(column)
        if (userId !== undefined) sums = sums.where('user_id', '=', userId)
        if (apiKeyId !== undefined) sums = sums.where('api_key_id', '=', apiKeyId)
        if (model !== undefined) sums = sums.where('model', '=', model)
        const rows = await sums.execute()
        return reply(200, {
          success: true,
          period: { startDate: start, endDate: end },
          rows: rows.slice(0, USAGE_ROWS).map((row) => ({
            ...(row.day !== undefined && { day: row.day }),
            ...(row.user_id !== undefined && { userId: row.user_id }),
            ...(row.api_key_id !== undefined && { apiKeyId: row.api_key_id }),
            ...(row.model !== undefined && { model: row.model }),
            requests: row.requests,
            inputTokens: row.input_tokens,
            outputTokens: row.output_tokens,
            points: row.points,
            dollars: row.billed_nanos / NANOS_PER_DOLLAR,
            listPrice: row.nanos / NANOS_PER_DOLLAR,
          })),
          truncated: rows.length > USAGE_ROWS,
        } satisfies z.input<typeof ReportUsageResponse>)
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/usage/report',
      access: 'analytics',
      errors: 'structured',
      tags: ['Usage'],
      summary: 'Report usage and exact cost by day, tenant, user, key, provider, model or tag',
      query: CostReportQuery,
      responses: {
        200: { description: 'The sums, ordered by the groups', schema: CostReportResponse },
        403: { description: 'Only the operator may report by tenant', schema: StructuredError },
      },
      async handle({ caller, query: { by, ...days } }) {
        const ofAllTenants = by.includes('tenant')
        if (ofAllTenants && !caller.isOperator)
          throw new GatewayError(
            'INSUFFICIENT_PERMISSIONS',
            'Only the operator key may report by tenant. Omit `tenant` from `by`.',
          )
        const until = days.until ?? isoTime(clock.now()).slice(0, DAY_CHARS)
        const since = days.since ?? `${until.slice(0, MONTH_CHARS)}-01`
        if (since > until) throw invalidField('since', 'since must not be after until.', since)
        const tenantId = ofAllTenants ? undefined : caller.tenantId
        const report = await costReport(db, { tenantId, by, since, until })
        return reply(200, {
          success: true,
          period: { since, until },
          by,
          ...report,
        } satisfies z.input<typeof CostReportResponse>)
      },
    }),
  ]
}
