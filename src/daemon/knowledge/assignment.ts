import { GatewayError, invalidField } from '../../shared/errors.ts'
import { PERSONAL_INDEXES } from '../../shared/spec-limits.ts'
import type { Db } from '../db/database.ts'
import { findGroupRow } from '../groups/store.ts'
import { findPayer } from '../users/store.ts'
import { countPersonalIndexes, type IndexRow } from './store.ts'

export type Assignment = Pick<IndexRow, 'assigned_user_id' | 'assigned_group_id'>

type Asked = { assignedUser?: string | null | undefined; assignedGroup?: string | null | undefined }

/** Who an index belongs to after a request: whoever is named, and then nobody else. */
export function assignmentAfter(before: Assignment, { assignedUser, assignedGroup }: Asked): Assignment {
  if (assignedUser) return { assigned_user_id: assignedUser, assigned_group_id: null }
  if (assignedGroup) return { assigned_user_id: null, assigned_group_id: assignedGroup }
  return {
    assigned_user_id: assignedUser === null ? null : before.assigned_user_id,
    assigned_group_id: assignedGroup === null ? null : before.assigned_group_id,
  }
}

/**
 * Whether an index may be given to these. Takes the transaction of a `change`, which is one at a time for a tenant.
 * @throws VALIDATION_ERROR, INVALID_GROUP for who is not there or not active; INDEX_QUOTA_EXCEEDED (named-endpoints §19)
 */
export async function checkAssignment(tx: Db, tenantId: string, after: Assignment, before: Assignment): Promise<void> {
  const { assigned_user_id: userId, assigned_group_id: groupId } = after
  if (groupId !== null && groupId !== before.assigned_group_id) {
    const group = await findGroupRow(tx, tenantId, groupId)
    if (group?.status !== 'Active') {
      throw new GatewayError('INVALID_GROUP', 'assignedGroup: there is no active group with this id.')
    }
  }
  if (userId === null || userId === before.assigned_user_id) return
  const user = await findPayer(tx, tenantId, userId)
  if (!user) throw invalidField('assignedUser', 'assignedUser: there is no active user with this id.', userId)
  const has = await countPersonalIndexes(tx, tenantId, userId)
  const limit = PERSONAL_INDEXES[user.license]
  if (has >= limit) {
    throw new GatewayError(
      'INDEX_QUOTA_EXCEEDED',
      `This user has ${has} of ${limit} personal indexes that the licence ${user.license} allows.`,
    )
  }
}
