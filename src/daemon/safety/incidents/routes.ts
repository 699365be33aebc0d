import { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import {
  CountIncidentsQuery,
  CountIncidentsResponse,
  type Incident,
  ListIncidentsQuery,
  ListIncidentsResponse,
  ShowIncidentResponse,
} from '../../../shared/wire/incidents.ts'
import type { Db } from '../../platform/db/db.ts'
import { toPagination } from '../../platform/db/list-page.ts'
import type { IncidentRow } from '../../platform/db/tables.ts'
import { idOf, type Route, reply, route } from '../../platform/http/route.ts'
import { countIncidents, findIncident, listIncidents } from './store.ts'

/** Returns the routes that security staff use to read incidents. */
export function incidentRoutes({ db }: { db: Db }): Route[] {
  const common: Pick<Route, 'method' | 'access' | 'errors' | 'tags'> = {
    method: 'GET',
    access: 'smltp-security',
    errors: 'structured',
    tags: ['Incidents'],
  }
  return [
    route({
      ...common,
      path: '/api/admin/incidents',
      summary: 'List incidents, newest first',
      query: ListIncidentsQuery,
      responses: { 200: { description: 'One page', schema: ListIncidentsResponse } },
      async handle({ caller, query }) {
        const { rows, total } = await listIncidents(db, caller.tenantId, query)
        const incidents = rows.map(toIncident)
        const pagination = toPagination(query, total)
        return reply(200, { success: true, incidents, pagination } satisfies z.input<typeof ListIncidentsResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/admin/incidents/counts',
      summary: 'Count incidents by kind, severity and action',
      query: CountIncidentsQuery,
      responses: { 200: { description: 'The counts', schema: CountIncidentsResponse } },
      async handle({ caller, query }) {
        const counts = (await countIncidents(db, caller.tenantId, query)).map(({ enforced, ...count }) => ({
          ...count,
          enforced: enforced === 1,
        }))
        const total = counts.reduce((sum, { count }) => sum + count, 0)
        return reply(200, { success: true, total, counts } satisfies z.input<typeof CountIncidentsResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/admin/incidents/{incidentId}',
      summary: 'Show an incident',
      responses: {
        200: { description: 'The incident', schema: ShowIncidentResponse },
        404: { description: 'No incident of this tenant has this id', schema: StructuredError },
      },
      async handle({ caller, params }) {
        const row = await findIncident(db, caller.tenantId, idOf(params.incidentId, notFound))
        if (!row) throw notFound()
        return reply(200, { success: true, incident: toIncident(row) } satisfies z.input<typeof ShowIncidentResponse>)
      },
    }),
  ]
}

const notFound = () =>
  new GatewayError('INCIDENT_NOT_FOUND', 'Incident not found. GET /api/admin/incidents lists all incidents.')

const Types = z.record(z.string(), z.int())

const toIncident = (row: IncidentRow): Incident => ({
  id: row.id,
  createdAt: row.created_at,
  requestId: row.request_id,
  traceId: row.trace_id,
  apiKeyId: row.api_key_id,
  userId: row.user_id,
  endpoint: row.endpoint,
  model: row.model,
  kind: row.kind,
  ruleId: row.rule_id,
  ruleName: row.rule_name,
  category: row.category,
  types: Types.parse(JSON.parse(row.types)),
  count: row.match_count,
  severity: row.severity,
  direction: row.direction,
  action: row.action,
  enforced: row.enforced === 1,
  riskScore: row.risk_score,
  policy: row.policy,
})
