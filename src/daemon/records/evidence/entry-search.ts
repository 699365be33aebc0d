// Counts and finds matching entries. Reads several parts of the log in one statement, because each statement is a round
// trip on PostgreSQL.
import type { Expression, SelectQueryBuilder } from 'kysely'
import { sql } from 'kysely'
import { chunksOf } from '../../../shared/lists.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceEntryRow, Tables } from '../../platform/db/tables.ts'
import { type EntryFilter, type EntryPlace, type EntryRange, kindOf, matching, matchingAt } from './entry-filter.ts'

export type EntryCount = { type: string | null; severity: string | null; count: number }

/** Counts by type and severity. */
export class Kinds {
  readonly #byName = new Map<string, EntryCount>()

  constructor(start: readonly EntryCount[] = []) {
    for (const { type, severity, count } of start) this.add(type, severity, count)
  }

  add(type: string | null, severity: string | null, count: number): void {
    // Values contain no NUL, so names differ if values differ.
    const name = `${type ?? '\0'}\0${severity ?? '\0'}`
    const known = this.#byName.get(name)
    if (known) known.count += count
    else this.#byName.set(name, { type, severity, count })
  }

  get all(): EntryCount[] {
    return [...this.#byName.values()]
  }
}

/** The number of matching entries by type and severity. Reads all entries of the period. */
export const countEntries = (db: Db, tenantId: string, filter: EntryFilter): Promise<EntryCount[]> =>
  db
    // Group in a second query, because SQLite would parse each payload twice if this query grouped the rows.
    .with(
      (name) => name('facts').materialized(),
      () => matching(db, tenantId, filter).select(kindOf(db)),
    )
    .selectFrom('facts')
    .select(['type', 'severity', sql<number>`count(*)`.as('count')])
    .groupBy(['type', 'severity'])
    .execute()

/** The number of matching entries with this mark, by type and severity, and the bounds of their times. */
export type MarkedCount = EntryCount & { mark: number; first_at: string; last_at: string }

/** Maximum number of queries in one statement. */
const QUERIES_PER_STATEMENT = 50
/** Maximum number of positions that one query reads. */
const PLACES_PER_READ = 2_000

/** Counts the matches of each of these ranges. Their marks are their positions in `ranges`. */
export function countRanges(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  ranges: readonly EntryRange[],
): Promise<MarkedCount[]> {
  const queries = ranges.map((part, mark) =>
    matching(db, tenantId, { ...filter, part }).select([sql.lit(mark).as('mark'), 'created_at', ...kindOf(db)]),
  )
  return together(unionsOf(queries).map((facts) => countMarked(db, facts)))
}

/** The matches in each of these ranges. Their marks are their positions in `ranges`. */
export function findInRanges(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  ranges: readonly EntryRange[],
): Promise<(Match & Omit<EntryCount, 'count'> & { mark: number })[]> {
  const queries = ranges.map((part, mark) =>
    matching(db, tenantId, { ...filter, part }).select([sql.lit(mark).as('mark'), 'id', 'created_at', ...kindOf(db)]),
  )
  return together(unionsOf(queries).map((query) => query.execute()))
}

/** Counts the matches at these positions, for each mark. */
export function countAt(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  places: readonly EntryPlace[],
): Promise<MarkedCount[]> {
  const queries = chunksOf(places, PLACES_PER_READ).map((chunk) =>
    matchingAt(db, tenantId, filter, chunk).select([sql<number>`mark`.as('mark'), 'created_at', ...kindOf(db)]),
  )
  return together(queries.map((facts) => countMarked(db, facts)))
}

type Facts = Expression<{ mark: number; created_at: string; type: string | null; severity: string | null }>

const countMarked = (db: Db, facts: Facts): Promise<MarkedCount[]> =>
  db
    .with(
      (name) => name('facts').materialized(),
      () => facts,
    )
    .selectFrom('facts')
    .select(({ fn }) => [
      ...(['mark', 'type', 'severity'] as const),
      sql<number>`count(*)`.as('count'),
      fn.min('created_at').as('first_at'),
      fn.max('created_at').as('last_at'),
    ])
    .groupBy(['mark', 'type', 'severity'])
    .execute()

/** The id and the time of an entry. */
export type Match = Pick<EvidenceEntryRow, 'id' | 'created_at'>

/** Finds the matches in `ranges` and at `unsure`, and all entries of the period at `known`. */
export function findMatches(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  { ranges, known, unsure }: Record<'known' | 'unsure', readonly EntryPlace[]> & { ranges: readonly EntryRange[] },
): Promise<Match[]> {
  const { startDate, endDate } = filter
  const at = (places: readonly EntryPlace[], where: EntryFilter) =>
    chunksOf(places, PLACES_PER_READ).map((chunk) =>
      matchingAt(db, tenantId, where, chunk).select(['id', 'created_at']),
    )
  const inRanges = ranges.map((part) => matching(db, tenantId, { ...filter, part }).select(['id', 'created_at']))
  const queries = [...at(known, { startDate, endDate }), ...at(unsure, filter), ...inRanges]
  return together(unionsOf<Tables, 'evidence_entries', Match>(queries).map((query) => query.execute()))
}

/** The rows of one page of the matches, ordered by time and id. */
export async function findPage(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  { sortOrder, offset, length }: { sortOrder: 'asc' | 'desc'; offset: number; length: number },
): Promise<EvidenceEntryRow[]> {
  const page = matching(db, tenantId, filter)
    .select('id as page_id')
    .orderBy('created_at', sortOrder)
    .orderBy('id', sortOrder)
    .offset(offset)
    .limit(length)
  // SQLite reads the tables of a cross join in this order. Rows are read only for the requested page.
  const rows = await db
    .selectFrom(page.as('page'))
    .crossJoin('evidence_entries')
    .selectAll('evidence_entries')
    .whereRef('id', '=', 'page_id')
    .execute()
  return rows.sort((one, other) => (sortOrder === 'asc' ? newestFirst(other, one) : newestFirst(one, other)))
}

/** The rows of these entries, in the same order. Entries that were removed in the meantime are omitted. */
export async function findRows(db: Db, matches: readonly Match[]): Promise<EvidenceEntryRow[]> {
  if (matches.length === 0) return []
  const ids = matches.map(({ id }) => id)
  const rows = await db.selectFrom('evidence_entries').selectAll().where('id', 'in', ids).execute()
  const byId = new Map(rows.map((row) => [row.id, row]))
  return ids.flatMap((id) => byId.get(id) ?? [])
}

/** The order of lists. */
export const newestFirst = (one: Match, other: Match): number => {
  if (one.created_at !== other.created_at) return one.created_at > other.created_at ? -1 : 1
  return one.id > other.id ? -1 : 1
}

/** Joins queries to few statements. */
export const unionsOf = <DB, Table extends keyof DB, Row>(
  queries: readonly SelectQueryBuilder<DB, Table, Row>[],
): SelectQueryBuilder<DB, Table, Row>[] =>
  chunksOf(queries, QUERIES_PER_STATEMENT).flatMap(([first, ...rest]) =>
    first === undefined ? [] : rest.reduce((all, query) => all.unionAll(query), first),
  )

/** The results of several statements in one list. */
export const together = async <Item>(lists: readonly Promise<Item[]>[]): Promise<Item[]> =>
  (await Promise.all(lists)).flat()
