import type { z } from 'zod'
import type { CreateIndexResponse, Index } from '../../../shared/wire/indexes.ts'
import type { IndexDetails, IndexRow } from './store.ts'

type Assigned = Pick<IndexRow, 'assigned_user_id' | 'assigned_group_id'>

/** Returns the type of an index, derived from its assignment. */
export function typeOf({ assigned_user_id, assigned_group_id }: Assigned): 'personal' | 'group' | 'general' {
  if (assigned_user_id !== null) return 'personal'
  return assigned_group_id === null ? 'general' : 'group'
}

/** Returns the namespace of an index, as the API shows it. */
export const namespaceOf = ({ name, assigned_user_id }: Pick<IndexRow, 'name' | 'assigned_user_id'>): string =>
  assigned_user_id === null ? name : `user-${assigned_user_id}-index-${name}`

export function toIndex(row: IndexDetails): Index {
  return {
    ...toCreatedIndex(row),
    userId: row.created_by,
    isActive: row.deleted_at === null,
    updatedAt: row.updated_at,
    deletedAt: row.deleted_at,
  }
}

export function toCreatedIndex(row: IndexDetails): z.input<typeof CreateIndexResponse>['index'] {
  const name = row.deleted_name ?? row.name
  const { assigned_user_id, assigned_group_id, user_name, user_email, group_name } = row
  const assignedUser =
    assigned_user_id === null || user_name === null || user_email === null
      ? null
      : { id: assigned_user_id, name: user_name, email: user_email }
  const assignedGroup =
    assigned_group_id === null || group_name === null ? null : { id: assigned_group_id, name: group_name }
  const type = typeOf(row)
  return {
    id: row.id,
    name,
    sharedIndexName: name,
    namespace: namespaceOf({ name, assigned_user_id }),
    description: row.description,
    type: type === 'general' || assignedUser || assignedGroup ? type : 'unknown',
    assignedUser,
    assignedGroup,
    indexAccess: row.index_access,
    documentCount: Number(row.documentCount),
    createdAt: row.created_at,
  }
}
