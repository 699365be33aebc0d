// The filter of log lists: as SQL over entries, and as a test for the groups in a block.
import { type Expression, expressionBuilder, type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { rowList } from '../../platform/db/row-list.ts'
import type { EvidenceEntryRow, Tables } from '../../platform/db/tables.ts'
import { payloadOf } from './entry-payload.ts'
import { type EntryFacets, FACETS, type Facet, facetsOf, REQUEST_TYPE } from './log-blocks.ts'

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
  /** Only entries of this range. */
  part?: EntryRange | undefined
  /** Ranges of ids, from (inclusive) to (exclusive). */
  ids?: readonly [from: string, to: string][] | undefined
  /** Range of HTTP statuses. Both ends are inclusive. */
  status?: { min: number; max: number } | undefined
  search?: string | undefined
  searchIn?: readonly SearchedPart[] | undefined
}

/** Entries of a chain from position `from` (inclusive) to `to` (exclusive). */
export type EntryRange = { chain: string; from: number; to: number }

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

/** Selects the matching entries of a tenant. */
export const matching = (db: Db, tenantId: string, filter: EntryFilter) =>
  db.selectFrom('evidence_entries').where(({ and }) => and(conditions(db, tenantId, filter)))

function conditions(db: Db, tenantId: string, filter: EntryFilter): Expression<SqlBool>[] {
  const { eb, or, and, not, between } = expressionBuilder<Tables, 'evidence_entries'>()
  const all: Expression<SqlBool>[] = [eb('tenant_id', '=', tenantId)]
  const { startDate, endDate, id, ids, part, types } = filter
  if (startDate !== undefined) all.push(eb('created_at', '>=', startDate))
  if (endDate !== undefined) all.push(eb('created_at', '<=', endDate))
  if (id !== undefined) all.push(eb('id', '=', id))
  if (part !== undefined) all.push(eb('chain', '=', part.chain), eb('seq', '>=', part.from), eb('seq', '<', part.to))
  if (ids !== undefined) all.push(or(ids.map(([from, to]) => and([eb('id', '>=', from), eb('id', '<', to)]))))
  if (types !== undefined) {
    const isNamed = eb(member(db, 'type'), 'in', types)
    all.push(types.includes(REQUEST_TYPE) ? or([isRequest, isNamed]) : and([not(isRequest), isNamed]))
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
    if (value !== undefined) all.push(...mayHave(value), eb(member(db, name), '=', value))
  }
  if (filter.complianceCategory !== undefined) all.push(eb(complianceOf(db), '=', filter.complianceCategory))
  if (filter.notResult !== undefined) all.push(eb(member(db, 'result'), '<>', filter.notResult))
  const { model, status, search } = filter
  if (model !== undefined) {
    all.push(
      ...mayHave(model),
      or([eb(member(db, 'model'), '=', model), eb(member(db, 'requested_model'), '=', model)]),
    )
  }
  if (status !== undefined) {
    all.push(between(sql`cast(${member(db, 'status')} as integer)`, status.min, status.max))
  }
  if (search !== undefined) {
    const searchedParts = filter.searchIn ?? SEARCHED
    const parts = searchedParts.flatMap((part) => MEMBERS[part])
    // The stored payload of a request has no type.
    if (IS_LITERAL.test(search) && !searchedParts.includes('type')) all.push(holds(sql`payload`, search))
    all.push(or(parts.map((part) => holds(searched(db, part), search))))
  }
  return all
}

/** Characters that a JSON text contains unescaped. */
const IS_LITERAL = /^[ !#-[\]-~]*$/

/**
 * A condition that a payload with this string fulfils, as far as its text shows. Parsing a payload takes several times
 * as long as searching its text.
 */
const mayHave = (value: string): Expression<SqlBool>[] =>
  IS_LITERAL.test(value) ? [sql<SqlBool>`payload like ${`%"${toPattern(value)}"%`} escape '\\'`] : []

/** Matches `%` and `_` literally. */
const toPattern = (text: string): string => text.replace(/[\\%_]/g, '\\$&')

/** A position in a chain. Entries are returned with the mark of their position. */
export type EntryPlace = { chain: string; seq: number; mark: number }

/** Selects the matching entries at these positions. The SQL is the same for any number of positions. */
export function matchingAt(db: Db, tenantId: string, filter: EntryFilter, places: readonly EntryPlace[]) {
  const rows = places.map(({ chain, seq, mark }) => ({ in_chain: chain, in_seq: seq, mark }))
  const listed = rowList(db, { in_chain: 'text', in_seq: 'integer', mark: 'integer' }, rows)
  return (
    db
      .selectFrom(listed.as('place'))
      // SQLite reads the tables of a cross join in this order.
      .crossJoin('evidence_entries')
      .where(({ and }) => and([sql<SqlBool>`chain = in_chain and seq = in_seq`, ...conditions(db, tenantId, filter)]))
  )
}

/** A property of an entry's payload, as text. `name` is never user input. */
const member = (db: Db, name: string): RawBuilder<string | null> =>
  sql<string | null>`${sql.raw(engineOf(db).jsonMember('payload', name))}`

/** A property that is searched. The stored form of a request's payload omits some of them (stored-payload.ts). */
function searched(db: Db, name: string): RawBuilder<string | null> {
  if (name === 'type') return typeOf(db)
  return name === 'requested_model' ? sql`coalesce(${member(db, name)}, ${member(db, 'model')})` : member(db, name)
}

/** The type and the severity of an entry. */
export const kindOf = (db: Db) => [typeOf(db).as('type'), member(db, 'severity').as('severity')] as const

/** The type and the severity of a row, as the engines read them. */
export function kindIn(row: EvidenceEntryRow): { type: string | null; severity: string | null } {
  const [type = null, severity = null] = facetsOf(row.id, payloadOf(row)).values
  return { type, severity }
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
  const pattern = `%${toPattern(part.toLowerCase())}%`
  return sql<SqlBool>`lower(${text}) like ${pattern} escape '\\'`
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
