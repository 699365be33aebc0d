import { sql } from 'kysely'
import type { z } from 'zod'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import type { CountIncidentsQuery, ListIncidentsQuery } from '../../../shared/wire/incidents.ts'
import type { Db } from '../../platform/db/db.ts'
import type { IncidentRow } from '../../platform/db/tables.ts'

/** Retention of incidents. */
export const INCIDENTS_KEPT_DAYS = 365
/** Maximum number of incidents to delete in one statement. */
const INCIDENTS_PURGE_ROWS = 500

/** An id begins with the second of `created_at`, so the primary key finds the incident. */
export function findIncident(db: Db, tenantId: string, id: string): Promise<IncidentRow | undefined> {
  const fromMs = Number.parseInt(id.slice(0, ID_TIME_CHARS), 16) * SECOND_MS
  return db
    .selectFrom('incidents')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('created_at', '>=', isoTime(fromMs))
    .where('created_at', '<', isoTime(fromMs + SECOND_MS))
    .where('id', '=', id)
    .executeTakeFirst()
}

type Filter = Omit<z.output<typeof ListIncidentsQuery>, 'page' | 'limit' | 'sortBy' | 'sortOrder'>

/**
 * Returns the total number of a tenant's matching incidents, and one page of them, sorted by age. The only key of the
 * table is in this order. Other filters therefore read the incidents of the period.
 */
export async function listIncidents(
  db: Db,
  tenantId: string,
  { page, limit, sortOrder, sortBy, ...filter }: z.output<typeof ListIncidentsQuery>,
): Promise<{ rows: IncidentRow[]; total: number }> {
  const near = periodOf(filter)
  if (near !== undefined) {
    const found = await pageOfMatches(matching(db, tenantId, { ...filter, ...near }), { page, limit, sortOrder })
    if (found.total > 0) return found
  }
  return pageOfMatches(matching(db, tenantId, filter), { page, limit, sortOrder })
}

function matching(db: Db, tenantId: string, filter: Filter) {
  let found = within(db, tenantId, filter)
  if (filter.kind !== undefined) found = found.where('kind', '=', filter.kind)
  if (filter.severity !== undefined) found = found.where('severity', '=', filter.severity)
  if (filter.direction !== undefined) found = found.where('direction', '=', filter.direction)
  if (filter.action !== undefined) found = found.where('action', '=', filter.action)
  if (filter.apiKeyId !== undefined) found = found.where('api_key_id', '=', filter.apiKeyId)
  if (filter.userId !== undefined) found = found.where('user_id', '=', filter.userId)
  if (filter.requestId !== undefined) found = found.where('request_id', '=', filter.requestId)
  return found
}

async function pageOfMatches(
  found: ReturnType<typeof matching>,
  { page, limit, sortOrder }: Pick<z.output<typeof ListIncidentsQuery>, 'page' | 'limit' | 'sortOrder'>,
): Promise<{ rows: IncidentRow[]; total: number }> {
  const offset = (page - 1) * limit
  const rows = await found
    .selectAll()
    .orderBy('created_at', sortOrder)
    .orderBy('id', sortOrder)
    .limit(limit)
    .offset(offset)
    .execute()
  // A page that is not full ends the list, so the total is known without a count.
  if (rows.length < limit && (rows.length > 0 || page === 1)) return { rows, total: offset + rows.length }
  const counted = found.select(sql<number>`count(*)`.as('total'))
  return { rows, total: (await counted.executeTakeFirstOrThrow()).total }
}

/**
 * The part of a request's period in which its incidents were created. A request id begins with the second in which the
 * request started. Undefined for an id without a time, and for a filter that has a period.
 */
function periodOf({ requestId = '', startDate, endDate }: Filter): Required<Period> | undefined {
  const hex = REQUEST_ID.exec(requestId)?.[1]
  if (hex === undefined || startDate !== undefined || endDate !== undefined) return undefined
  const startedMs = Number.parseInt(hex, 16) * SECOND_MS
  return { startDate: isoTime(startedMs - SECOND_MS), endDate: isoTime(startedMs + REQUEST_MS) }
}

const REQUEST_ID = /^req-([0-9a-f]{8})[0-9a-f]{16}$/
const ID_TIME_CHARS = 8
const SECOND_MS = 1_000
/** No request takes longer. */
const REQUEST_MS = DAY_MS

type Count = Pick<IncidentRow, 'kind' | 'severity' | 'action' | 'enforced'> & { count: number }

/** Returns the number of incidents by kind, severity, action and enforcement. */
export const countIncidents = (
  db: Db,
  tenantId: string,
  period: z.output<typeof CountIncidentsQuery>,
): Promise<Count[]> =>
  within(db, tenantId, period)
    .select(['kind', 'severity', 'action', 'enforced', sql<number>`count(*)`.as('count')])
    .groupBy(['kind', 'severity', 'action', 'enforced'])
    .orderBy('kind')
    .orderBy('severity')
    .orderBy('action')
    .orderBy('enforced')
    .execute()

type Period = z.output<typeof CountIncidentsQuery>

function within(db: Db, tenantId: string, { startDate, endDate }: Period) {
  let matching = db.selectFrom('incidents').where('tenant_id', '=', tenantId)
  if (startDate !== undefined) matching = matching.where('created_at', '>=', isoTime(Date.parse(startDate)))
  if (endDate !== undefined) matching = matching.where('created_at', '<=', isoTime(Date.parse(endDate)))
  return matching
}

/**
 * Deletes incidents that are older than INCIDENTS_KEPT_DAYS. Deletes in batches, so that other writers can run between
 * two batches.
 */
export async function purgeIncidents({ db, clock }: { db: Db; clock: Clock }): Promise<void> {
  const before = isoTime(clock.now() - INCIDENTS_KEPT_DAYS * DAY_MS)
  for (const { id } of await db.selectFrom('tenants').select('id').execute()) {
    while ((await purgeOldest(db, id, before)) === INCIDENTS_PURGE_ROWS);
  }
}

async function purgeOldest(db: Db, tenantId: string, before: string): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('incidents')
    .where(({ eb, refTuple }) =>
      eb(refTuple('tenant_id', 'created_at', 'id'), 'in', (old) =>
        old
          .selectFrom('incidents')
          .select(['tenant_id', 'created_at', 'id'])
          .where('tenant_id', '=', tenantId)
          .where('created_at', '<', before)
          .orderBy('created_at')
          .orderBy('id')
          .limit(INCIDENTS_PURGE_ROWS)
          .$asTuple('tenant_id', 'created_at', 'id'),
      ),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
