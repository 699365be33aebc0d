import { type Expression, type ExpressionBuilder, type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { type Page, pageOf } from '../../platform/db/list-page.ts'
import type { EvidenceEntryRow, Tables } from '../../platform/db/tables.ts'

/** The filter of a list of entries. Dates are ISO 8601 in UTC with milliseconds. Both ends of a range are inclusive. */
export type EntryFilter = {
  startDate?: string | undefined
  endDate?: string | undefined
  types?: readonly string[] | undefined
  severity?: string | undefined
  userId?: string | undefined
  keyId?: string | undefined
  result?: string | undefined
  /** Excludes entries with this result. */
  notResult?: string | undefined
  complianceCategory?: string | undefined
  operation?: string | undefined
  /** The served or requested model. */
  model?: string | undefined
  requestId?: string | undefined
  id?: string | undefined
  /** Range of HTTP statuses. Both ends are inclusive. */
  status?: { min: number; max: number } | undefined
  search?: string | undefined
  searchIn?: readonly SearchedPart[] | undefined
}

/** The fields that a search covers. `actor` means the ids of user and key. */
export type SearchedPart = 'description' | 'operation' | 'endpoint' | 'type' | 'actor'

const MEMBERS: Record<SearchedPart, readonly string[]> = {
  // The description of a request is generated from these fields (entry-payload.ts).
  description: ['description', 'requested_model', 'error'],
  operation: ['operation'],
  endpoint: ['endpoint'],
  type: ['type'],
  actor: ['user_id', 'key_id'],
}

const SEARCHED: readonly SearchedPart[] = ['description', 'operation', 'endpoint']

export type EntryPage = Page & { sortOrder: 'asc' | 'desc' }
export type EntryCount = { type: string | null; severity: string | null; count: number }

/**
 * One page of a tenant's matching entries, ordered by age, and the total. Filters on payload fields exclude entries
 * whose payload was expunged.
 * @param total the number of matches, if known. If it is set, matches are not counted, and no query reads beyond the
 * last match.
 */
export const listEntries = (
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  { sortOrder, ...page }: EntryPage,
  total?: number,
): Promise<{ rows: EvidenceEntryRow[]; total: number }> =>
  pageOf(matching(db, tenantId, filter).select('id'), {
    ...page,
    sortKeys: ['created_at', 'id'],
    sortOrder,
    isSearch: false,
    total,
    find: (ids) => db.selectFrom('evidence_entries').selectAll().where('id', 'in', ids).execute(),
  })

/** Like `listEntries`, with counts by type and severity. Type and severity are null for expunged entries. */
export async function listAndCountEntries(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  page: EntryPage,
): Promise<{ rows: EvidenceEntryRow[]; total: number; counts: EntryCount[] }> {
  const counts = await countEntries(db, tenantId, filter)
  const total = counts.reduce((sum, { count }) => sum + count, 0)
  return { ...(await listEntries(db, tenantId, filter, page, total)), counts }
}

/** The first matching entries of one chain, by position, from `from` (inclusive) to `size` (exclusive). */
export const listChainEntries = (
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  { chain, from, size, limit }: { chain: string; from: number; size: number; limit: number },
): Promise<EvidenceEntryRow[]> =>
  matching(db, tenantId, filter)
    .selectAll()
    .where('chain', '=', chain)
    .where('seq', '>=', from)
    .where('seq', '<', size)
    .orderBy('seq')
    .limit(limit)
    .execute()

function countEntries(db: Db, tenantId: string, filter: EntryFilter): Promise<EntryCount[]> {
  const type = sql<string | null>`case when ${isRequest} then ${REQUEST_TYPE} else ${member(db, 'type')} end`
  const facts = matching(db, tenantId, filter).select([type.as('type'), member(db, 'severity').as('severity')])
  // A second query groups the rows. If this query grouped them, SQLite would parse each payload twice.
  return db
    .with(
      (name) => name('facts').materialized(),
      () => facts,
    )
    .selectFrom('facts')
    .select(['type', 'severity', sql<number>`count(*)`.as('count')])
    .groupBy(['type', 'severity'])
    .execute()
}

/**
 * Most entries belong to requests, and request ids have their own prefix. Their type is therefore known without parsing
 * the payload. Parsing payloads is the main cost of a list.
 */
const isRequest = sql<SqlBool>`(substr(id, 1, 4) = 'jti-' and payload is not null)`
const REQUEST_TYPE = 'api_access'

type Builder = ExpressionBuilder<Tables, 'evidence_entries'>

function matching(db: Db, tenantId: string, filter: EntryFilter) {
  let found = db.selectFrom('evidence_entries').where('tenant_id', '=', tenantId)
  if (filter.startDate !== undefined) found = found.where('created_at', '>=', filter.startDate)
  if (filter.endDate !== undefined) found = found.where('created_at', '<=', filter.endDate)
  if (filter.id !== undefined) found = found.where('id', '=', filter.id)
  const { types } = filter
  if (types !== undefined) {
    const isNamed = (eb: Builder) => eb(member(db, 'type'), 'in', types)
    found = found.where((eb) =>
      types.includes(REQUEST_TYPE) ? eb.or([isRequest, isNamed(eb)]) : eb.and([eb.not(isRequest), isNamed(eb)]),
    )
  }
  const equal = {
    severity: filter.severity,
    user_id: filter.userId,
    key_id: filter.keyId,
    result: filter.result,
    compliance_category: filter.complianceCategory,
    operation: filter.operation,
    request_id: filter.requestId,
  }
  for (const [name, value] of Object.entries(equal)) {
    if (value !== undefined) found = found.where(member(db, name), '=', value)
  }
  if (filter.notResult !== undefined) found = found.where(member(db, 'result'), '<>', filter.notResult)
  const { model, status, search } = filter
  if (model !== undefined) {
    found = found.where(({ or, eb }) =>
      or([eb(member(db, 'model'), '=', model), eb(member(db, 'requested_model'), '=', model)]),
    )
  }
  if (status !== undefined) {
    found = found.where(({ between }) => between(sql`cast(${member(db, 'status')} as integer)`, status.min, status.max))
  }
  if (search !== undefined) {
    const parts = (filter.searchIn ?? SEARCHED).flatMap((part) => MEMBERS[part])
    found = found.where(({ or }) => or(parts.map((part) => holds(member(db, part), search))))
  }
  return found
}

/** A property of an entry's payload, as text. `name` is never user input. */
const member = (db: Db, name: string): RawBuilder<string | null> =>
  sql<string | null>`${sql.raw(engineOf(db).jsonMember('payload', name))}`

/** Whether `text` contains `part`, ignoring case. `%` and `_` are matched literally. */
function holds(text: Expression<string | null>, part: string): Expression<SqlBool> {
  const pattern = `%${part.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
  return sql<SqlBool>`lower(${text}) like ${pattern} escape '\\'`
}
