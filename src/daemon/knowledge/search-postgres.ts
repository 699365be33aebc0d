import { sql } from 'kysely'
import type { Ranking } from './search.ts'

// PostgreSQL ranks without regard to how rare a word is, so BM25 is put together here: ts_rank of a single word stands
// for its frequency (0.3 for one in the body at the weights below), and the rest is the formula. 0.36 = 0.3 * 1.2 (k1).
export const postgresRanking: Ranking = ({ words, joined }, { tenantId, indexId }, limit) => {
  const text = words.flatMap(spellings).join(' ')
  return sql`
    with word as (
      select lexeme, bool_or(required) as required from (
        select lexeme, true as required from unnest(to_tsvector('english', ${text}))
        union all select lexeme, false from unnest(to_tsvector('english', ${joined.join(' ')}))
      ) as either group by lexeme
    ),
    term as materialized (
      select ('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery as query, required
      from word
    ),
    any_term as (
      select coalesce(string_agg(query::text, ' | '), '')::tsquery as query from term
    ),
    hit as materialized (
      select passages.id, passages.tsv, length(passages.tsv) as size
      from any_term, passages join documents on documents.tenant_id = passages.tenant_id
        and documents.index_id = passages.index_id and documents.id = passages.document_id
      where passages.tenant_id = ${tenantId} and passages.index_id = ${indexId} and passages.tsv @@ any_term.query
        and documents.state = 'published'
    ),
    usual as (select greatest(avg(size), 1) as size from hit),
    home as (
      select coalesce(sum(passage_count), 0) as size from documents
      where tenant_id = ${tenantId} and index_id = ${indexId} and state = 'published'
    ),
    weighed as materialized (
      select query, ln(1 + (home.size - found + 0.5) / (found + 0.5)) as idf
      from home,
        (select query, required, (select count(*) from hit where hit.tsv @@ term.query) as found from term) as counted
      where required or found > 0
    ),
    frequency as (
      select hit.id, idf, hit.size, ts_rank('{0, 0, 0.5, 1}', hit.tsv, query) as rank
      from hit, weighed where hit.tsv @@ query
    ),
    best as (
      select id, least(1.0,
        sum(idf * rank / (rank + 0.36 * (0.25 + 0.75 * frequency.size / usual.size)))
          / (select sum(idf) from weighed))::float8 as score
      from frequency, usual
      group by id order by score desc, id limit ${limit}
    )
    select best.score, passages.id, passages.document_id, documents.source, documents.title, passages.position,
      passages.headings, passages.body
    from best join passages on passages.id = best.id
      join documents on documents.tenant_id = passages.tenant_id and documents.index_id = passages.index_id
        and documents.id = passages.document_id
    order by best.score desc, best.id`
}

/** A database in the C locale does not know upper from lower case beyond ASCII, so such words are asked for in both. */
function spellings(word: string): string[] {
  if (/^[\0-\x7f]*$/.test(word)) return [word]
  return [word, word.toUpperCase(), word.slice(0, 1).toUpperCase() + word.slice(1)]
}
