import type { MigrationStep } from '../migration-step.ts'

/**
 * Indexes, their documents, and passages with a full-text index that the database maintains. While a document is being
 * replaced, it exists twice, and only one version is `published`.
 */
export const knowledge: MigrationStep = (dialect) => {
  const { text, integer, tableEnd } = dialect
  return [
    `create table indexes (
      id ${text} primary key,
      tenant_id ${text} not null references tenants (id),
      name ${text} not null,
      description ${text} not null,
      created_by ${text} not null,
      created_at ${text} not null,
      updated_at ${text} not null,
      unique (tenant_id, id),
      unique (tenant_id, name)
    )${tableEnd}`,
    `create table documents (
      id ${text} primary key,
      tenant_id ${text} not null,
      index_id ${text} not null,
      source ${text} not null,
      title ${text} not null,
      content_hash ${text} not null,
      passage_count ${integer} not null,
      state ${text} not null,
      created_at ${text} not null,
      unique (tenant_id, index_id, id),
      foreign key (tenant_id, index_id) references indexes (tenant_id, id) on delete cascade
    )${tableEnd}`,
    "create unique index documents_by_source on documents (tenant_id, index_id, source) where state = 'published'",
    "create index documents_unpublished on documents (tenant_id, created_at) where state <> 'published'",
    `create table passages (
      id ${integer} primary key,
      tenant_id ${text} not null,
      index_id ${text} not null,
      document_id ${text} not null,
      position ${integer} not null,
      headings ${text} not null,
      body ${text} not null,
      unique (tenant_id, index_id, document_id, position),
      foreign key (tenant_id, index_id, document_id) references documents (tenant_id, index_id, id) on delete cascade
    )${tableEnd}`,
    ...(dialect.engine === 'sqlite' ? sqliteFullText : postgresFullText),
  ]
}

// The full-text index has external content: the text is stored only in `passages`. To delete an entry, FTS5 needs the
// old values. The triggers provide these values. index_id is indexed as a word of each passage, so a search in a small
// knowledge base does not scan the entries of a large one.
const sqliteFullText = [
  `create virtual table passages_fts using fts5 (
    index_id, headings, body,
    content = 'passages', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
  )`,
  `create trigger passages_inserted after insert on passages begin
    insert into passages_fts (rowid, index_id, headings, body)
      values (new.id, new.index_id, new.headings, new.body);
  end`,
  `create trigger passages_deleted after delete on passages begin
    insert into passages_fts (passages_fts, rowid, index_id, headings, body)
      values ('delete', old.id, old.index_id, old.headings, old.body);
  end`,
  `create trigger passages_updated after update on passages begin
    insert into passages_fts (passages_fts, rowid, index_id, headings, body)
      values ('delete', old.id, old.index_id, old.headings, old.body);
    insert into passages_fts (rowid, index_id, headings, body)
      values (new.id, new.index_id, new.headings, new.body);
  end`,
]

// By default, PostgreSQL treats README.md, a/b and a-b as one word each and skips <tags>. U+200B separates words in
// scripts without spaces, but PostgreSQL treats it as a letter in the C locale. SQLite splits words at all of these
// characters.
const SIGNS = '/.-_:@#=&?%+~<>\\'
const spaced = (column: string) => `translate(${column}, '${SIGNS}' || chr(8203), '${' '.repeat(SIGNS.length + 1)}')`

const postgresFullText = [
  `alter table passages add column tsv tsvector generated always as (
    setweight(to_tsvector('english', ${spaced('headings')}), 'A') ||
    setweight(to_tsvector('english', ${spaced('body')}), 'B')
  ) stored`,
  'create index passages_tsv on passages using gin (tsv)',
]
