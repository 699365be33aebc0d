import type { Index, IndexDocument } from '../../../shared/wire/indexes.ts'
import type { Described } from '../../resources/resolve.ts'
import { indexPath, toIndexNameOrId } from './name.ts'

const MEMBERS: Record<keyof Index, true> = {
  id: true,
  name: true,
  description: true,
  type: true,
  isActive: true,
  documentCount: true,
  createdAt: true,
  updatedAt: true,
  deletedAt: true,
  embedding: true,
  sharedIndexName: true,
  namespace: true,
  userId: true,
  assignedUser: true,
  assignedGroup: true,
}

const shared = {
  idPath: 'id',
  members: Object.keys(MEMBERS),
  none: 'No indexes yet. Create one:  aigw indexes create NAME',
}

export const INDEXES: Described<Index> = {
  noun: 'index',
  command: 'indexes',
  path: 'indexes',
  listPath: 'indexes/all',
  itemsKey: 'indexes',
  itemKey: 'index',
  isCalled: (index, name) => index.name === name,
  argument: 'name or id',
  toReference: toIndexNameOrId,
  listView: {
    ...shared,
    columns: [
      { path: 'name' },
      { path: 'documentCount', title: 'DOCUMENTS' },
      { path: 'type' },
      { path: 'createdAt', title: 'CREATED' },
      { path: 'description', flexible: true },
    ],
  },
  view: {
    ...shared,
    columns: [
      { path: 'id' },
      { path: 'name' },
      { path: 'description' },
      { path: 'type' },
      { path: 'assignedUser.email', title: 'USER' },
      { path: 'assignedGroup.name', title: 'GROUP' },
      { path: 'documentCount', title: 'DOCUMENTS' },
      { path: 'embedding.embedded', title: 'EMBEDDED PASSAGES' },
      { path: 'embedding.passages', title: 'OF' },
      { path: 'embedding.model', title: 'EMBEDDING MODEL' },
      { path: 'embedding.searchedWith', title: 'SEARCHED WITH' },
      { path: 'createdAt', title: 'CREATED' },
      { path: 'updatedAt', title: 'UPDATED' },
    ],
  },
}

/** The documents of one index. */
export const documentsOf = (index: string): Described<IndexDocument> => ({
  noun: 'document',
  command: 'indexes',
  listCommand: `aigw indexes docs ${index}`,
  path: indexPath(index, 'documents'),
  itemsKey: 'documents',
  itemKey: 'document',
  isCalled: (document, name) => document.name === name,
  argument: 'name or id',
  view: {
    columns: [
      { path: 'name' },
      { path: 'chunks', title: 'PASSAGES' },
      { path: 'createdAt', title: 'ADDED' },
      { path: 'title', flexible: true },
    ],
    idPath: 'id',
    none: 'No documents yet. Add some:  aigw indexes add INDEX FILE',
  },
})
