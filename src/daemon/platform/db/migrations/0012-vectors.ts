import type { MigrationStep } from '../migration-step.ts'

/**
 * Embeddings of passages. `documents.embedded_by` is the model that has embedded the whole document, or 0. An index on
 * this column finds pending work. Each vector is stored in two forms. A search scans all signatures (see
 * `knowledge/search/vectors/signature.ts`), and then reads the full vectors of a few candidates.
 */
export const vectors: MigrationStep = ({ engine, text, integer, tableEnd }) => {
  const [bits, numbers] = engine === 'sqlite' ? ['blob', 'blob'] : ['bit varying', 'real[]']
  return [
    `create table embedding_models (
      id ${integer} primary key,
      model ${text} not null,
      asked_dimensions ${integer} not null,
      dimensions ${integer} not null,
      unique (model, asked_dimensions)
    )${tableEnd}`,
    `create table embedding_work (
      id ${integer} primary key check (id = 1),
      model_id ${integer} not null references embedding_models (id),
      lease_owner ${text},
      lease_until ${text}
    )${tableEnd}`,
    `alter table documents add column embedded_by ${integer} not null default 0`,
    `create index documents_by_embedding on documents (embedded_by, tenant_id, index_id) where state = 'published'`,
    `create table index_vectors (
      tenant_id ${text} not null,
      index_id ${text} not null,
      model_id ${integer} not null references embedding_models (id),
      is_clean ${integer} not null,
      primary key (tenant_id, index_id),
      foreign key (tenant_id, index_id) references indexes (tenant_id, id) on delete cascade
    )${tableEnd}`,
    `create table passage_vectors (
      passage_id ${integer} not null references passages (id) on delete cascade,
      model_id ${integer} not null references embedding_models (id),
      tenant_id ${text} not null,
      index_id ${text} not null,
      signature ${bits} not null,
      vector ${numbers} not null,
      primary key (passage_id, model_id)
    )${tableEnd}`,
    ...(engine === 'sqlite'
      ? // This is a covering index: scanning the signatures reads no table rows.
        [
          'create index passage_vectors_by_index on passage_vectors (tenant_id, index_id, model_id, passage_id, signature)',
        ]
      : [
          'create index passage_vectors_by_index on passage_vectors (tenant_id, index_id, model_id)',
          // PostgreSQL stores the vectors out of line instead, so signatures are close together in the table.
          'alter table passage_vectors alter column vector set storage external',
          'alter table passage_vectors set (toast_tuple_target = 128)',
        ]),
  ]
}
