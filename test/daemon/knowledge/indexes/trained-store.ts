import { afterAll, beforeAll } from 'vitest'
import type { IndexKey } from '../../../../src/daemon/knowledge/indexes/document-types.ts'
import { insertIndex } from '../../../../src/daemon/knowledge/indexes/store.ts'
import { chunkText, type Passage } from '../../../../src/daemon/knowledge/ingest/chunking.ts'
import { prepareDocument } from '../../../../src/daemon/knowledge/ingest/prepared-document.ts'
import { type InPublication, replaceDocument } from '../../../../src/daemon/knowledge/ingest/replacement.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { tenantRow } from '../../../accounts.ts'
import type { TestEngine, TestStore } from '../../../engines.ts'
import { sharedResources } from '../../../shared-resources.ts'

export const NOW = '2026-01-01T00:00:00.000Z'

/** One store for all tests of the enclosing `describe`; `fill` fills it. */
export function sharedStore(engine: TestEngine, fill: (db: Db) => Promise<void>): { readonly db: Db } {
  let store: TestStore | undefined
  beforeAll(async () => {
    store = await engine.open()
    sharedResources.add(store)
    await fill(store.db)
  })
  afterAll(async () => {
    if (!store) return
    sharedResources.delete(store)
    await store.close()
  })
  return {
    get db() {
      if (!store) throw new Error('the shared store is there only while tests run')
      return store.db
    },
  }
}

export async function insertTenant(db: Db, id: string): Promise<void> {
  await db
    .insertInto('tenants')
    .values(tenantRow({ id, name: id }))
    .execute()
}

/** An index whose name is its id. */
export function insertNamedIndex(db: Db, tenantId: string, id: string): Promise<void> {
  const rest = { created_at: NOW, updated_at: NOW, index_access: 'write' as const }
  return insertIndex(db, { id, tenant_id: tenantId, name: id, description: '', created_by: 'u', ...rest })
}

/** The settings of a replacement that is never aborted and writes only the document. */
export function unwatched(db: Db): { signal: AbortSignal; inPublication: InPublication } {
  return { signal: new AbortController().signal, inPublication: (publish) => db.transaction().execute(publish) }
}

/** Trains an index with a Markdown text, as a document named `source`. */
export function train(db: Db, tenantId: string, indexId: string, source: string, text: string): Promise<void> {
  const { title, passages } = chunkText(text, 'markdown')
  return store(db, { tenantId, indexId }, { source, title, contentHash: text }, passages)
}

/** Inserts passages into an index, as a document named `source`. */
export function store(
  db: Db,
  index: IndexKey,
  { source, title = '', contentHash = '' }: { source: string; title?: string; contentHash?: string },
  passages: Iterable<Passage>,
): Promise<void> {
  const prepared = prepareDocument(title, source, passages)
  return replaceDocument(db, index, { source, contentHash, prepared, now: NOW }, unwatched(db))
}
