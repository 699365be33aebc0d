import { sql } from 'kysely'
import type { Ranking } from './search.ts'

// FTS5's bm25() knows how often a word occurs over all tenants. Asked for one word at a time, that factor can be divided
// out again and replaced by the one of this index, so no tenant's ranking tells anything about another's texts.
// 2.2 is k1 + 1, the most that BM25 gives for one word; 1e-6 is FTS5's floor for words that are nearly everywhere.
export const sqliteRanking: Ranking = (words, { tenantId, indexId }, limit) => {
  // Quoted, a word is a string to FTS5 and never an operator; a word holds no quotes (see wordsOf).
  const hits = words.map(
    (word, term) => sql`
      select ${sql.lit(term)} as term, rowid as id, -bm25(passages_fts, 2.0, 1.0) as weight
      from passages_fts where passages_fts match ${`"${word}"`}`,
  )
  return sql`select * from (
    with hit as materialized (${sql.join(hits, sql` union all `)}),
    everywhere as (select count(*) as size from passages),
    known as (
      select term, max(1e-6, ln((size - count(*) + 0.5) / (count(*) + 0.5))) as idf
      from hit, everywhere group by term
    ),
    here as materialized (
      select hit.term, hit.id, hit.weight from hit join passages on passages.id = hit.id
      where passages.tenant_id = ${tenantId} and passages.index_id = ${indexId}
    ),
    home as (
      select count(*) as size from passages where tenant_id = ${tenantId} and index_id = ${indexId}
    ),
    found as (
      select here.term, ln(1 + (size - count(*) + 0.5) / (count(*) + 0.5)) as idf
      from here, home group by here.term
    ),
    whole as (
      select (select coalesce(sum(idf), 0) from found)
        + (${sql.lit(words.length)} - (select count(*) from found)) * ln(1 + (size + 0.5) / 0.5) as idf
      from home
    ),
    best as (
      select here.id, min(1.0, sum(found.idf * here.weight / known.idf / 2.2) / whole.idf) as score
      from here join found on found.term = here.term join known on known.term = here.term, whole
      group by here.id order by score desc, here.id limit ${sql.lit(limit)}
    )
    select best.score, passages.id, passages.document_id, documents.source, documents.title, passages.position,
      passages.headings, passages.body
    from best join passages on passages.id = best.id
      join documents on documents.tenant_id = passages.tenant_id and documents.index_id = passages.index_id
        and documents.id = passages.document_id
    order by best.score desc, best.id
  )`
}
