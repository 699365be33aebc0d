import type { Activity } from '../../records/audit/change.ts'
import { typeOf } from './index-view.ts'
import type { IndexRow } from './store.ts'

type DocumentOperation = 'train' | 'delete_document'

/** `facts` say nothing of what is in the document; `content`, such as a hash of it, may tell who has it that it is this one. */
type DocumentChange = {
  operation: DocumentOperation
  document: { id: string; source: string }
  facts: Record<string, unknown>
  content?: Record<string, unknown>
}

const SENTENCES: Readonly<Record<DocumentOperation, (index: string, document: string) => string>> = {
  train: (index, document) => `trained index "${index}" with "${document}"`,
  delete_document: (index, document) => `deleted "${document}" from index "${index}"`,
}

/**
 * What the log says of a document that came into an index or left it. Whoever reads the log need not be one who may read the
 * index, so only documents of an index that is everybody's are called by their names; of others it has the id.
 */
export function documentActivity(index: IndexRow, { operation, document, facts, content }: DocumentChange): Activity {
  const isOpen = typeOf(index) === 'general'
  return {
    type: 'index_management',
    operation,
    resourceType: 'index',
    resourceId: index.id,
    description: SENTENCES[operation](index.name, isOpen ? document.source : document.id),
    metadata: { ...(isOpen ? { document: document.source, ...content } : { documentId: document.id }), ...facts },
  }
}
