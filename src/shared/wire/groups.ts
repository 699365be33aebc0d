import { z } from 'zod'
import { GROUP_LIST_USERS, GROUP_USERS, NAME_CHARS } from '../spec-limits.ts'
import {
  description,
  listQuery,
  objectId,
  oneOf,
  optional,
  Pagination,
  readableName,
  readOnlyMembers,
  requestBody,
} from './common.ts'

const GROUP_STATUSES = ['Active', 'Inactive'] as const

/** A user in the responses of groups and roles. */
export const UserReference = z
  .object({ id: z.string(), name: z.string(), email: z.string() })
  .meta({ id: 'UserReference' })
export type UserReference = z.infer<typeof UserReference>

/** A group. */
export const Group = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    status: z.enum(GROUP_STATUSES),
    userCount: z.int(),
    users: z.array(UserReference).meta({
      description: `Its members, sorted by name. A list shows at most ${GROUP_LIST_USERS} of each group, those created first. userCount is exact`,
    }),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Group' })
export type Group = z.infer<typeof Group>

const name = readableName('name', NAME_CHARS)
const status = oneOf('status', GROUP_STATUSES)
const users = z
  .array(objectId('each of users'), { error: 'users must be an array of user ids' })
  .max(GROUP_USERS, { error: `users may name at most ${GROUP_USERS} users` })
  .transform((ids) => [...new Set(ids)])

/** The body of POST /groups. */
export const CreateGroupRequest = requestBody('CreateGroupRequest', {
  name,
  description,
  users: optional(users),
  status: optional(status),
})

/** The members of a group that requests cannot change. */
export const GROUP_READ_ONLY = ['id', 'userCount', 'createdAt', 'updatedAt'] as const satisfies (keyof Group)[]

/** The body of PUT /groups/{groupId}. Only the given fields are changed. `users` replaces the whole list. */
export const UpdateGroupRequest = requestBody('UpdateGroupRequest', {
  name: optional(name),
  description: optional(description),
  users: optional(users),
  status: optional(status),
  ...readOnlyMembers(GROUP_READ_ONLY),
})

export const GROUP_SORTS = ['createdAt', 'updatedAt', 'name', 'userCount'] as const

export const ListGroupsQuery = listQuery(GROUP_SORTS).extend({ status: status.optional() })

/** The response of create and update. */
export const GroupResponse = z.object({ success: z.literal(true), message: z.string(), group: Group })
export const ShowGroupResponse = z.object({ success: z.literal(true), group: Group })
export const ListGroupsResponse = z.object({
  success: z.literal(true),
  groups: z.array(Group),
  pagination: Pagination,
})
