import type { Activity } from '../../records/audit/change.ts'
import { typeOf } from './index-view.ts'
import type { IndexRow } from './store.ts'

type DocumentOperation = 'train' | 'delete_document'

/**
 * `facts` contains values that reveal nothing about the content. `content` contains values that can identify the
 * document, such as its hash.
 */
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
 * Returns the log entry that records that a document was added to an index or removed from it. Readers of the log may
 * lack access to the index, so only entries of general indexes contain the document's name. For other indexes, the
 * entry contains only the document's id.
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
