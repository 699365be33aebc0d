import type { Index, IndexDocument } from '../../../shared/wire/indexes.ts'
import { columns, flexible } from '../../output/formats.ts'
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
  indexAccess: true,
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
    columns: columns(
      { NAME: 'name', DOCUMENTS: 'documentCount', TYPE: 'type', CREATED: 'createdAt' },
      { DESCRIPTION: flexible('description') },
    ),
  },
  view: {
    ...shared,
    columns: columns(
      { ID: 'id', NAME: 'name', DESCRIPTION: 'description', TYPE: 'type', USER: 'assignedUser.email' },
      {
        GROUP: 'assignedGroup.name',
        'INDEX ACCESS': 'indexAccess',
        DOCUMENTS: 'documentCount',
        'EMBEDDED PASSAGES': 'embedding.embedded',
      },
      { OF: 'embedding.passages', 'EMBEDDING MODEL': 'embedding.model', 'SEARCHED WITH': 'embedding.searchedWith' },
      { CREATED: 'createdAt', UPDATED: 'updatedAt' },
    ),
  },
}

/** Returns the documents of one index. */
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
    columns: columns({ NAME: 'name', PASSAGES: 'chunks', ADDED: 'createdAt', TITLE: flexible('title') }),
    idPath: 'id',
    none: 'No documents yet. Add some:  aigw indexes add INDEX FILE',
  },
})
