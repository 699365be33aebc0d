import type { RawBuilder } from 'kysely'
import type { Db } from '../db/database.ts'
import { engineOf } from '../db/engine.ts'
import { contentWords, joinedWords, withoutWordBorders } from '../text/words.ts'
import type { IndexKey } from './document-store.ts'
import { postgresRanking } from './search-postgres.ts'
import { sqliteRanking } from './search-sqlite.ts'

/** A passage that shares words with the query, with where it stands. `score`: see `searchPassages`. */
export type Match = {
  score: number
  passageId: number
  documentId: string
  source: string
  title: string
  position: number
  headings: string
  body: string
}

type MatchRow = Omit<Match, 'passageId' | 'documentId'> & { id: number; document_id: string }

/** What is looked for. `joined` are words that may stand for two of `words`; where they do not occur, nobody misses them. */
type QueryTerms = { words: readonly string[]; joined: readonly string[] }

/** The query for the best passages for these words, best first, with the columns of MatchRow. */
export type Ranking = (terms: QueryTerms, key: IndexKey, limit: number) => RawBuilder<unknown>

/** More words make a query slow and no better. */
const QUERY_WORDS = 32
const JOINED_WORDS = 16

/**
 * The passages of one index that fit the query best, best first. Any text is a query: it is taken as words, never as
 * operators, and one without words finds nothing.
 *
 * `score` is the share of the query's weight that the passage carries, 0 to 1: each word weighs more the fewer passages
 * of the index hold it, and counts in full only when the passage is about little else (BM25's saturation; words in
 * headings count double). A passage of usual length with every word once is near 0.45. Passages rank by it, and scores of
 * different queries and of both engines can be compared.
 */
export async function searchPassages(
  db: Db,
  tenantId: string,
  indexId: string,
  query: string,
  limit: number,
): Promise<Match[]> {
  const terms = queryTerms(query)
  if (terms.words.length === 0) return []
  const ranking = engineOf(db).name === 'sqlite' ? sqliteRanking : postgresRanking
  const { rows } = await ranking(terms, { tenantId, indexId }, limit).execute(db)
  return (rows as MatchRow[]).map(({ id, document_id, ...row }) => ({
    ...row,
    passageId: id,
    documentId: document_id,
    headings: withoutWordBorders(row.headings),
    body: withoutWordBorders(row.body),
  }))
}

/** Of a long query the longest words, because they are the rarest. */
export function queryTerms(query: string): QueryTerms {
  const all = contentWords(query)
  const words =
    all.length <= QUERY_WORDS ? all : all.sort((one, other) => other.length - one.length).slice(0, QUERY_WORDS)
  const joined = [...joinedWords(query).keys()].filter((word) => !words.includes(word))
  return { words, joined: joined.slice(0, JOINED_WORDS) }
}
