// The routes that list log entries.
import type { z } from 'zod'
import type { Clock } from '../../../shared/time.ts'
import {
  type ActivityLog,
  AUDIT_TYPES,
  EXPUNGED,
  ListActivityLogsQuery,
  ListActivityLogsResponse,
  ListAuditLogsResponse,
  ListLogsQuery,
} from '../../../shared/wire/logs.ts'
import type { Db } from '../../platform/db/db.ts'
import { type Page, toPagination } from '../../platform/db/list-page.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import type { EntryFilter } from '../evidence/entry-filter.ts'
import { listEntries } from '../evidence/entry-list.ts'
import { payloadOf } from '../evidence/entry-payload.ts'
import { windowOf } from '../evidence/log-window.ts'
import { toLogEntry, type UserName } from './log-entry.ts'
import { endOfLog, entriesAfter } from './position.ts'
import { findProviderMessages } from './provider-messages.ts'

export type LogDeps = {
  db: Db
  clock: Clock
  /** The names of users by id. Unknown ids are omitted. */
  findUserNames(db: Db, tenantId: string, userIds: readonly string[]): Promise<ReadonlyMap<string, UserName>>
}

/** Routes that list the entries of a tenant's evidence as readable logs. */
export function logRoutes({ db, clock, findUserNames }: LogDeps): Route[] {
  const common: Pick<Route, 'method' | 'access' | 'rate' | 'errors' | 'tags'> = {
    method: 'GET',
    access: 'smltp-security',
    rate: 'read',
    errors: 'structured',
    tags: ['Logs'],
  }
  return [
    route({
      ...common,
      path: '/api/external/audit-logs',
      summary: 'List decisions and changes of guards, policies and keys, newest first',
      query: ListLogsQuery,
      responses: { 200: { description: 'One page', schema: ListAuditLogsResponse } },
      async handle({ caller: { tenantId }, query }) {
        const { shown, filter } = windowOf(query, clock.now())
        const types = AUDIT_TYPES.filter((type) => query.type === undefined || type === query.type)
        const { rows, total, estimated } =
          types.length === 0
            ? { rows: [], total: 0, estimated: false }
            : await listEntries(
                db,
                tenantId,
                { ...toFilter(query), ...filter, types, searchIn: ['description', 'operation'] },
                query,
              )
        const logs = (await toLogs({ db, findUserNames }, tenantId, rows)).map(
          ({ resourceType, resourceId, ...log }) => log,
        )
        return reply(200, {
          success: true,
          data: { logs, pagination: toLogPagination(query, total, estimated), dateRange: shown },
        } satisfies z.input<typeof ListAuditLogsResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/activity-logs',
      // Clients poll this route, so it does not count towards the key's daily limit.
      rate: 'unmetered',
      summary: 'List all activity, newest first; with a position, only newer entries',
      query: ListActivityLogsQuery,
      responses: { 200: { description: 'One page', schema: ListActivityLogsResponse } },
      async handle({ caller: { tenantId }, query }) {
        const window = windowOf(query, clock.now())
        const filter = {
          ...toFilter(query),
          ...window.filter,
          ...(query.type !== undefined && { types: [query.type] }),
        }
        const { rows, total, estimated, counts, position } =
          query.after === undefined
            ? { ...(await listEntries(db, tenantId, filter, query)), position: undefined }
            : await newEntries(db, tenantId, filter, { after: query.after, limit: query.limit, nowMs: clock.now() })
        const countBy = (member: 'type' | 'severity') => {
          const sums: Record<string, number> = {}
          for (const { [member]: name, count } of counts) sums[name ?? EXPUNGED] = (sums[name ?? EXPUNGED] ?? 0) + count
          return sums
        }
        // Lists omit the messages of providers. They are shown for one request at a time.
        const isOneRequest = query.requestId !== undefined || query.bundleId !== undefined
        const logs = await toLogs({ db, findUserNames }, tenantId, rows, { withMessages: isOneRequest })
        const summary = {
          dateRange: window.shown,
          totalLogs: total,
          severityBreakdown: countBy('severity'),
          typeBreakdown: countBy('type'),
        }
        return reply(200, {
          success: true,
          data: {
            logs,
            pagination: toLogPagination(query, total, estimated),
            summary,
            ...(position !== undefined && { position }),
          },
        } satisfies z.input<typeof ListActivityLogsResponse>)
      },
    }),
  ]
}

/**
 * Returns the entries after a position in the format of a list page. For the position `now`, returns no entries, only
 * the next position.
 */
async function newEntries(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  { after, limit, nowMs }: { after: string; limit: number; nowMs: number },
) {
  const { rows, position } =
    after === 'now'
      ? { rows: [], position: await endOfLog(db, tenantId, nowMs) }
      : await entriesAfter(db, { tenantId, filter, after, limit })
  const counts = rows.map((row) => {
    const { type = null, severity = null } = payloadOf(row) ?? {}
    return { type, severity, count: 1 }
  })
  return { rows, total: rows.length, estimated: false, counts, position }
}

const toLogPagination = (page: Page, total: number, estimated: boolean) => ({
  ...toPagination(page, total),
  ...(estimated && { estimated }),
})

const toFilter = (query: ListLogsQuery): EntryFilter => ({
  severity: query.severity,
  userId: query.userId,
  keyId: query.apiKeyId,
  result: query.outcome,
  complianceCategory: query.complianceCategory,
  operation: query.operation,
  model: query.model,
  status: query.status,
  requestId: query.requestId,
  id: query.bundleId,
  search: query.search,
})

async function toLogs(
  { db, findUserNames }: Pick<LogDeps, 'db' | 'findUserNames'>,
  tenantId: string,
  rows: readonly EvidenceEntryRow[],
  { withMessages = false } = {},
): Promise<ActivityLog[]> {
  const userIds = new Set(rows.flatMap((row) => payloadOf(row)?.user_id ?? []))
  const users = await findUserNames(db, tenantId, [...userIds])
  const messages = await findProviderMessages(db, tenantId, withMessages ? rows.map(({ id }) => id) : [])
  return rows.map((row) => toLogEntry(row, users, messages.get(row.id)))
}
