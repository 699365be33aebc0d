import type { MigrationStep } from '../migration-step.ts'

/**
 * Our own inverted index, the same on both engines, replaces the full-text indexes of the engines. The daemon builds
 * the index at start. The daemon indexes all documents without a `first_passage_id` (see
 * `knowledge/indexes/reindex.ts`).
 */
export const knowledgeRanking: MigrationStep = ({ engine, text, integer, tableEnd }) => {
  const bytes = engine === 'sqlite' ? 'blob' : 'bytea'
  return [
    ...(engine === 'sqlite'
      ? [
          'drop trigger passages_inserted',
          'drop trigger passages_deleted',
          'drop trigger passages_updated',
          'drop table passages_fts',
        ]
      : ['alter table passages drop column tsv']),
    // In scripts without spaces, the old full-text indexes needed U+200B between words. The passages contained it.
    `update passages set headings = replace(headings, ${zeroWidthSpace(engine)}, ''),
      body = replace(body, ${zeroWidthSpace(engine)}, '')
      where body like '%' || ${zeroWidthSpace(engine)} || '%' or headings like '%' || ${zeroWidthSpace(engine)} || '%'`,
    `alter table documents add column first_passage_id ${integer}`,
    `alter table documents add column in_shared_segment ${integer} not null default 0`,
    'create unique index documents_by_passage on documents (first_passage_id)',
    "create index documents_gone on documents (tenant_id, index_id) where state in ('discarded', 'buried')",
    `create table segments (
      id ${text} primary key,
      tenant_id ${text} not null,
      index_id ${text} not null,
      document_id ${text},
      state ${text} not null,
      merged_into ${text},
      passage_count ${integer} not null,
      page_count ${integer} not null,
      passages ${bytes} not null,
      lengths ${bytes} not null,
      created_at ${text} not null,
      unique (tenant_id, id),
      foreign key (tenant_id, index_id) references indexes (tenant_id, id) on delete cascade
    )${tableEnd}`,
    'create index segments_by_index on segments (tenant_id, index_id, state)',
    'create index segments_by_document on segments (tenant_id, document_id)',
    'create index segments_by_merge on segments (tenant_id, merged_into)',
    `create table postings (
      tenant_id ${text} not null,
      segment_id ${text} not null,
      page ${text} not null,
      terms ${bytes} not null,
      primary key (page),
      foreign key (tenant_id, segment_id) references segments (tenant_id, id) on delete cascade
    )${tableEnd}`,
    'create index postings_by_segment on postings (tenant_id, segment_id)',
  ]
}

const zeroWidthSpace = (engine: 'sqlite' | 'postgres'): string => (engine === 'sqlite' ? 'char(8203)' : 'chr(8203)')
