// The filter of log lists: as SQL over entries, and as a test for the groups in a block.
import { type Expression, type ExpressionBuilder, type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { Tables } from '../../platform/db/tables.ts'
import { type EntryFacets, FACETS, type Facet, REQUEST_TYPE } from './log-blocks.ts'

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
  /** Only entries of a chain at these positions: from `from` (inclusive) to `to` (exclusive), or in `seqs`. */
  part?: { chain: string; from: number; to: number } | { chain: string; seqs: readonly number[] } | undefined
  /** Ranges of ids, from (inclusive) to (exclusive). */
  ids?: readonly [from: string, to: string][] | undefined
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

/**
 * Most entries belong to requests, which have a distinct id prefix. Their type is therefore known without parsing the
 * payload. Parsing payloads is the main cost of a list.
 */
const isRequest = sql<SqlBool>`(substr(id, 1, 4) = 'jti-' and payload is not null)`

type Builder = ExpressionBuilder<Tables, 'evidence_entries'>

/** Selects the matching entries of a tenant. */
export function matching(db: Db, tenantId: string, filter: EntryFilter) {
  let found = db.selectFrom('evidence_entries').where('tenant_id', '=', tenantId)
  if (filter.startDate !== undefined) found = found.where('created_at', '>=', filter.startDate)
  if (filter.endDate !== undefined) found = found.where('created_at', '<=', filter.endDate)
  if (filter.id !== undefined) found = found.where('id', '=', filter.id)
  const { ids, part } = filter
  if (part !== undefined) {
    found = found.where('chain', '=', part.chain)
    found =
      'seqs' in part
        ? found.where('seq', 'in', part.seqs)
        : found.where('seq', '>=', part.from).where('seq', '<', part.to)
  }
  if (ids !== undefined) {
    found = found.where(({ or, and, eb }) =>
      or(ids.map(([from, to]) => and([eb('id', '>=', from), eb('id', '<', to)]))),
    )
  }
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
    operation: filter.operation,
    request_id: filter.requestId,
  }
  for (const [name, value] of Object.entries(equal)) {
    if (value !== undefined) found = found.where(member(db, name), '=', value)
  }
  if (filter.complianceCategory !== undefined) found = found.where(complianceOf(db), '=', filter.complianceCategory)
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
    found = found.where(({ or }) => or(parts.map((part) => holds(searched(db, part), search))))
  }
  return found
}

/** A property of an entry's payload, as text. `name` is never user input. */
const member = (db: Db, name: string): RawBuilder<string | null> =>
  sql<string | null>`${sql.raw(engineOf(db).jsonMember('payload', name))}`

/** A property that is searched. The stored form of a request's payload omits some of them (stored-payload.ts). */
function searched(db: Db, name: string): RawBuilder<string | null> {
  if (name === 'type') return typeOf(db)
  return name === 'requested_model' ? sql`coalesce(${member(db, name)}, ${member(db, 'model')})` : member(db, name)
}

const typeOf = (db: Db): RawBuilder<string | null> =>
  sql<string | null>`case when ${isRequest} then ${REQUEST_TYPE} else ${member(db, 'type')} end`

/** The stored form of a request's payload omits the category, because the result determines it (stored-payload.ts). */
const complianceOf = (db: Db): RawBuilder<string | null> =>
  sql<string | null>`coalesce(${member(db, 'compliance_category')},
    case ${member(db, 'result')} when 'denied' then 'security' when 'success' then 'data_protection'
      when 'failure' then 'data_protection' end)`

/** Whether `text` contains `part`, ignoring case. `%` and `_` are matched literally. */
function holds(text: Expression<string | null>, part: string): Expression<SqlBool> {
  const pattern = `%${part.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
  return sql<SqlBool>`lower(${text}) like ${pattern} escape '\\'`
}

export type EntryCount = { type: string | null; severity: string | null; count: number }

/** The number of matching entries by type and severity. Reads all entries of the period, or of `part`. */
export function countEntries(db: Db, tenantId: string, filter: EntryFilter): Promise<EntryCount[]> {
  const facts = matching(db, tenantId, filter).select([typeOf(db).as('type'), member(db, 'severity').as('severity')])
  // Group in a second query, because SQLite would parse each payload twice if this query grouped the rows.
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

/** Whether a filter needs more than the time of an entry. */
export const hasContentFilter = ({ startDate, endDate, searchIn, ids, part, ...content }: EntryFilter): boolean =>
  Object.values(content).some((value) => value !== undefined)

/**
 * Whether the entries of a group match, apart from time, user and key. Undefined if the group's properties cannot show
 * this: the entries must then be read.
 */
export function testGroup(filter: EntryFilter, { hidden, described, values }: EntryFacets): boolean | undefined {
  const { types, notResult, model, status, search } = filter
  if (hidden) return !hasContentFilter(filter)
  const facet = (name: Facet) => values[FACETS.indexOf(name)]
  const tests: (boolean | undefined)[] = []
  const equals = (name: Facet, wanted: string) => {
    const value = facet(name)
    return value === undefined ? undefined : value === wanted
  }
  if (types !== undefined) tests.push(anyOf(types.map((type) => equals('type', type))))
  if (filter.severity !== undefined) tests.push(equals('severity', filter.severity))
  if (filter.result !== undefined) tests.push(equals('result', filter.result))
  if (filter.complianceCategory !== undefined) tests.push(equals('compliance_category', filter.complianceCategory))
  if (filter.operation !== undefined) tests.push(equals('operation', filter.operation))
  if (notResult !== undefined) {
    const result = facet('result')
    tests.push(result === undefined ? undefined : result !== null && result !== notResult)
  }
  if (model !== undefined) tests.push(anyOf([equals('model', model), equals('requested_model', model)]))
  if (status !== undefined) {
    const value = facet('status')
    tests.push(value === undefined ? undefined : value !== null && isBetween(Number(value), status))
  }
  if (search !== undefined) {
    const text = search.toLowerCase()
    const members = (filter.searchIn ?? SEARCHED).flatMap((part) => MEMBERS[part])
    tests.push(
      anyOf(
        members.map((name) => {
          if (name === 'description') return described ? undefined : false
          const at = (FACETS as readonly string[]).indexOf(name)
          const value = at < 0 ? undefined : values[at]
          if (value === null) return false
          // The engines may treat the case of non-ASCII letters differently, so values with such letters are undecided.
          return value === undefined || !IS_ASCII.test(value + text) ? undefined : value.toLowerCase().includes(text)
        }),
      ),
    )
  }
  if (tests.includes(false)) return false
  return tests.includes(undefined) ? undefined : true
}

const IS_ASCII = /^[\0-\x7f]*$/

const isBetween = (value: number, { min, max }: { min: number; max: number }) => value >= min && value <= max

function anyOf(tests: readonly (boolean | undefined)[]): boolean | undefined {
  if (tests.includes(true)) return true
  return tests.includes(undefined) ? undefined : false
}
