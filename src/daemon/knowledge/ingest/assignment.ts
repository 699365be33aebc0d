// Checks whether an index may be assigned to a user or group, and whether the licence permits its location.
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { PERSONAL_INDEXES, PLANNED_INDEXES_MAX } from '../../../shared/spec-limits.ts'
import type { License } from '../../../shared/wire/users.ts'
import { findGroupRow } from '../../identity/groups/store.ts'
import { findPayer } from '../../identity/users/store.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { countPersonalIndexes, type IndexRow } from '../indexes/store.ts'

export type Assignment = Pick<IndexRow, 'assigned_user_id' | 'assigned_group_id'>

type AssignmentRequest = { assignedUser?: string | null | undefined; assignedGroup?: string | null | undefined }

/**
 * Returns the assignment that an index will have after a request. A request that names a user or a group replaces both
 * the assigned user and the assigned group.
 */
export function assignmentAfter(before: Assignment, { assignedUser, assignedGroup }: AssignmentRequest): Assignment {
  if (assignedUser) return { assigned_user_id: assignedUser, assigned_group_id: null }
  if (assignedGroup) return { assigned_user_id: null, assigned_group_id: assignedGroup }
  return {
    assigned_user_id: assignedUser === null ? null : before.assigned_user_id,
    assigned_group_id: assignedGroup === null ? null : before.assigned_group_id,
  }
}

/**
 * Returns the licence that applies to an index: the assigned user's licence, or the creator's if no user is assigned.
 */
export async function licenseFor(
  tx: Db,
  { tenantId, userLicense }: Pick<Caller, 'tenantId' | 'userLicense'>,
  { assigned_user_id: userId }: Assignment,
): Promise<License> {
  const user = userId === null ? undefined : await findPayer(tx, tenantId, userId)
  return user?.license ?? userLicense
}

/**
 * Checks the requested location of an index against the licence. The location has no other effect: an index is always
 * stored in the gateway's store.
 * @throws REGION_NOT_ALLOWED
 */
export function checkLocation(
  license: License,
  { region, cloud }: { region?: string | undefined; cloud?: string | undefined },
): void {
  const only = PLANNED_INDEXES_MAX[license]
  if (only === undefined || ((region ?? only.region) === only.region && (cloud ?? only.cloud) === only.cloud)) return
  throw new GatewayError(
    'REGION_NOT_ALLOWED',
    `The licence ${license} allows indexes in ${only.cloud}/${only.region} only; omit \`region\` and \`cloud\`.`,
  )
}

/**
 * Checks whether an index is allowed to be assigned to this user or group. Call this in the transaction of a `change`.
 * Changes of one tenant are serialised, so the result is valid until the commit.
 * @throws VALIDATION_ERROR or INVALID_GROUP if the assignee is missing or inactive; INDEX_QUOTA_EXCEEDED
 */
export async function checkAssignment(tx: Db, tenantId: string, after: Assignment, before: Assignment): Promise<void> {
  const { assigned_user_id: userId, assigned_group_id: groupId } = after
  if (groupId !== null && groupId !== before.assigned_group_id) {
    const group = await findGroupRow(tx, tenantId, groupId)
    if (group?.status !== 'Active') {
      throw new GatewayError('INVALID_GROUP', 'assignedGroup: no active group has this id.')
    }
  }
  if (userId === null || userId === before.assigned_user_id) return
  const user = await findPayer(tx, tenantId, userId)
  if (!user) throw invalidField('assignedUser', 'assignedUser: no active user has this id.', userId)
  const has = await countPersonalIndexes(tx, tenantId, userId)
  const limit = PERSONAL_INDEXES[user.license]
  if (has >= limit) {
    throw new GatewayError(
      'INDEX_QUOTA_EXCEEDED',
      `This user has ${has} of the ${limit} personal indexes that the licence ${user.license} allows.`,
    )
  }
}
