/** A passage with its document. The passages of the document have consecutive ids that begin with `firstPassageId`. */
export type MatchRow = {
  id: number
  documentId: string
  source: string
  title: string
  position: number
  headings: string
  body: string
  page: number | null
  firstPassageId: number
  passageCount: number
}

/** The columns of a row, in the order in which they are encoded. */
export const MATCH_COLUMNS = [
  'passages.id',
  'documents.id',
  'documents.source',
  'documents.title',
  'passages.position',
  'passages.headings',
  'passages.body',
  'passages.page',
  'documents.first_passage_id',
  'documents.passage_count',
] as const

type Values = [number, string, string, string, number, string, string, number | null, number, number]

/** Decodes the rows that `findEncodedMatches` returns, by id. */
export function decodeMatches(encoded: string): Map<number, MatchRow> {
  const rows = new Map<number, MatchRow>()
  for (const values of JSON.parse(encoded) as Values[]) {
    const [id, documentId, source, title, position, headings, body, page, firstPassageId, passageCount] = values
    rows.set(id, { id, documentId, source, title, position, headings, body, page, firstPassageId, passageCount })
  }
  return rows
}
