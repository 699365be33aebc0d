import { sql } from 'kysely'
import type { z } from 'zod'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import type { CountIncidentsQuery, ListIncidentsQuery } from '../../../shared/wire/incidents.ts'
import type { Db } from '../../platform/db/db.ts'
import { pageOf } from '../../platform/db/list-page.ts'
import type { IncidentRow } from '../../platform/db/tables.ts'

/** Retention of incidents. */
export const INCIDENTS_KEPT_DAYS = 365
/** Maximum number of incidents to delete in one statement. */
const INCIDENTS_PURGE_ROWS = 500

export const findIncident = (db: Db, tenantId: string, id: string): Promise<IncidentRow | undefined> =>
  db.selectFrom('incidents').selectAll().where('tenant_id', '=', tenantId).where('id', '=', id).executeTakeFirst()

/** Returns the total number of a tenant's matching incidents, and one page of them, sorted by age. */
export function listIncidents(
  db: Db,
  tenantId: string,
  { page, limit, sortOrder, ...filter }: z.output<typeof ListIncidentsQuery>,
): Promise<{ rows: IncidentRow[]; total: number }> {
  let matching = within(db, tenantId, filter).select('id')
  if (filter.kind !== undefined) matching = matching.where('kind', '=', filter.kind)
  if (filter.severity !== undefined) matching = matching.where('severity', '=', filter.severity)
  if (filter.direction !== undefined) matching = matching.where('direction', '=', filter.direction)
  if (filter.action !== undefined) matching = matching.where('action', '=', filter.action)
  if (filter.apiKeyId !== undefined) matching = matching.where('api_key_id', '=', filter.apiKeyId)
  if (filter.userId !== undefined) matching = matching.where('user_id', '=', filter.userId)
  if (filter.requestId !== undefined) matching = matching.where('request_id', '=', filter.requestId)
  return pageOf(matching, {
    page,
    limit,
    sortKeys: ['created_at', 'id'],
    sortOrder,
    isSearch: false,
    find: (ids) =>
      db.selectFrom('incidents').selectAll().where('tenant_id', '=', tenantId).where('id', 'in', ids).execute(),
  })
}

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

function within(db: Db, tenantId: string, { startDate, endDate }: z.output<typeof CountIncidentsQuery>) {
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
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', (old) =>
      old
        .selectFrom('incidents')
        .select('id')
        .where('tenant_id', '=', tenantId)
        .where('created_at', '<', before)
        .limit(INCIDENTS_PURGE_ROWS),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
