import { sql } from 'kysely'
import type { Ranking } from './search.ts'

// FTS5's bm25() weighs a word by how rare it is over all tenants. Divided by what it would be if the passage were about
// nothing else (which enormous column weights make of it), it is how much the passage is about the word, from 0 to 1, and
// the rarity of the word in this index takes its place. The one thing that texts of others still move, and very little, is
// the average length of a passage, which bm25() takes for the usual one.
export const sqliteRanking: Ranking = ({ words, joined }, { tenantId, indexId }, limit) => {
  // Quoted, a word is a string to FTS5 and never an operator; a word holds no quotes (see wordsOf).
  const here = `index_id : "${indexId.replaceAll('"', '""')}"`
  const matchOf = (word: string) => `${here} AND {headings body} : "${word}"`
  const terms = [
    ...words.map((word) => ({ match: matchOf(word), required: 1 })),
    ...joined.map((word) => ({ match: matchOf(word), required: 0 })),
  ]
  // Starts with SELECT, which lets a reader take it; the terms are one parameter, so it is one statement for all queries.
  return sql`select * from (
    with term as materialized (
      select key as id, value->>'match' as match, value->>'required' as required from json_each(${JSON.stringify(terms)})
    ),
    hit as materialized (
      select term.id as term, passages_fts.rowid as id,
        bm25(passages_fts, 0.0, 2.0, 1.0) / bm25(passages_fts, 0.0, 2e9, 1e9) as weight
      from term cross join passages_fts where passages_fts match term.match
    ),
    here as materialized (
      select hit.term, hit.id, hit.weight from hit join passages on passages.id = hit.id
        join documents on documents.tenant_id = passages.tenant_id and documents.index_id = passages.index_id
          and documents.id = passages.document_id
      where passages.tenant_id = ${tenantId} and passages.index_id = ${indexId} and documents.state = 'published'
    ),
    home as (
      select coalesce(sum(passage_count), 0) as size from documents
      where tenant_id = ${tenantId} and index_id = ${indexId} and state = 'published'
    ),
    found as (
      select here.term, ln(1 + (size - count(*) + 0.5) / (count(*) + 0.5)) as idf
      from here, home group by here.term
    ),
    whole as (
      select coalesce(sum(coalesce(found.idf, ln(1 + (size + 0.5) / 0.5))), 0) as idf
      from home, term left join found on found.term = term.id
      where term.required or found.term is not null
    ),
    best as (
      select here.id, min(1.0, sum(found.idf * here.weight) / whole.idf) as score
      from here join found on found.term = here.term, whole
      group by here.id order by score desc, here.id limit ${limit}
    )
    select best.score, passages.id, passages.document_id, documents.source, documents.title, passages.position,
      passages.headings, passages.body
    from best join passages on passages.id = best.id
      join documents on documents.tenant_id = passages.tenant_id and documents.index_id = passages.index_id
        and documents.id = passages.document_id
    order by best.score desc, best.id
  )`
}
