import type { Index } from '../../../shared/wire/indexes.ts'

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
  sharedIndexName: true,
  namespace: true,
  userId: true,
  assignedUser: true,
  assignedGroup: true,
}

export const INDEX_VIEW = {
  columns: [
    { path: 'name' },
    { path: 'documentCount', title: 'DOCUMENTS' },
    { path: 'type' },
    { path: 'createdAt', title: 'CREATED' },
    { path: 'description', flexible: true },
  ],
  idPath: 'id',
  members: Object.keys(MEMBERS),
  none: 'No indexes yet. Create one:  aigw indexes create NAME',
}
