import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import { DoneResponse, StructuredError } from '../../../shared/wire/common.ts'
import {
  CreateGroupRequest,
  GROUP_READ_ONLY,
  type Group,
  GroupResponse,
  ListGroupsQuery,
  ListGroupsResponse,
  ShowGroupResponse,
  UpdateGroupRequest,
} from '../../../shared/wire/groups.ts'
import type { Db } from '../../platform/db/db.ts'
import { toPagination, toSearchText } from '../../platform/db/list-page.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { idOf, type Route, reply, route } from '../../platform/http/route.ts'
import { type ChangeDeps, change } from '../../records/audit/change.ts'
import {
  addMembers,
  deleteGroup,
  findGroup,
  findGroupRow,
  type GroupRow,
  type GroupWithMembers,
  insertGroup,
  listGroups,
  replaceMembers,
  updateGroup,
} from './store.ts'

/** The maximum size of a request body. It is large enough for GROUP_USERS ids and a long description. */
export const GROUP_BODY_BYTES = 524_288

const NOT_FOUND = { description: 'No group of this tenant has this id', schema: StructuredError }
const NAME_EXISTS = { description: 'A group with this name exists', schema: StructuredError }

/** Returns the routes that manage groups. */
export function groupRoutes(deps: ChangeDeps): Route[] {
  const { db, clock } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'group-management',
    errors: 'structured',
    tags: ['Groups'],
  }
  return [
    route({
      ...common,
      method: 'POST',
      path: '/api/external/groups',
      rate: 'write',
      summary: 'Create a group',
      body: CreateGroupRequest,
      bodyLimit: GROUP_BODY_BYTES,
      responses: {
        201: { description: 'The new group; it can be used at once', schema: GroupResponse },
        409: NAME_EXISTS,
      },
      async handle(context) {
        const { caller, body } = context
        const { name, description, status = 'Active', users = [] } = body
        const now = clock.now()
        const row: GroupRow = {
          id: newId(now),
          tenant_id: caller.tenantId,
          name,
          description,
          status,
          user_count: users.length,
          search_text: toSearchText(name, description),
          created_at: isoTime(now),
          updated_at: isoTime(now),
        }
        const group = await change(deps, context, async ({ tx, record }) => {
          await insertGroup(tx, row)
          await addMembers(tx, caller.tenantId, row.id, users)
          await record({ ...activityOn(row, 'create'), metadata: { description, status, usersAdded: users } })
          return getGroup(tx, caller.tenantId, row.id)
        })
        return reply(201, { success: true, message: 'Group created', group } satisfies z.input<typeof GroupResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/external/groups',
      rate: 'read',
      summary: 'List groups',
      query: ListGroupsQuery,
      responses: { 200: { description: 'One page, newest first', schema: ListGroupsResponse } },
      async handle({ caller, query }) {
        const { groups, total } = await listGroups(db, caller.tenantId, query)
        return reply(200, {
          success: true,
          groups: groups.map(toGroup),
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListGroupsResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/external/groups/{groupId}',
      rate: 'read',
      summary: 'Show a group',
      responses: { 200: { description: 'The group', schema: ShowGroupResponse }, 404: NOT_FOUND },
      async handle({ caller, params }) {
        const group = await getGroup(db, caller.tenantId, idOf(params.groupId, notFound))
        return reply(200, { success: true, group } satisfies z.input<typeof ShowGroupResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: '/api/external/groups/{groupId}',
      rate: 'write',
      summary: 'Update a group; `users` replaces all its members',
      body: UpdateGroupRequest,
      bodyLimit: GROUP_BODY_BYTES,
      responses: {
        200: { description: 'The updated group', schema: GroupResponse },
        404: NOT_FOUND,
        409: NAME_EXISTS,
      },
      async handle(context) {
        const { caller, body, params } = context
        const { tenantId } = caller
        const id = idOf(params.groupId, notFound)
        const group = await change(deps, context, async ({ tx, record }) => {
          const before = await findGroupRow(tx, tenantId, id)
          if (!before) throw notFound()
          const { users, ...fields } = changesIn(body, GROUP_READ_ONLY, shownOf(before))
          const { name = before.name, description = before.description, status = before.status } = fields
          const members = users && (await replaceMembers(tx, tenantId, id, users))
          await updateGroup(tx, {
            ...before,
            name,
            description,
            status,
            user_count: users?.length ?? before.user_count,
            search_text: toSearchText(name, description),
            updated_at: isoTime(clock.now()),
          })
          await record({
            ...activityOn(before, 'update'),
            // Properties that were not sent are undefined, so the JSON of the audit entry omits them.
            metadata: { ...fields, usersAdded: members?.added, usersRemoved: members?.removed },
          })
          return getGroup(tx, tenantId, id)
        })
        return reply(200, { success: true, message: 'Group updated', group } satisfies z.input<typeof GroupResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/api/external/groups/{groupId}',
      rate: 'write',
      summary: 'Delete a group; its members remain users',
      responses: { 200: { description: 'The group was deleted', schema: DoneResponse }, 404: NOT_FOUND },
      async handle(context) {
        const { caller, params } = context
        const id = idOf(params.groupId, notFound)
        await change(deps, context, async ({ tx, record }) => {
          const group = await deleteGroup(tx, caller.tenantId, id)
          if (!group) throw notFound()
          await record({ ...activityOn(group, 'delete'), metadata: { userCount: group.user_count } })
        })
        return reply(200, { success: true, message: 'Group deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

const notFound = () =>
  new GatewayError('GROUP_NOT_FOUND', 'Group not found. GET /api/external/groups lists all groups.')

/** @throws GROUP_NOT_FOUND */
async function getGroup(db: Db, tenantId: string, id: string): Promise<Group> {
  const group = await findGroup(db, tenantId, id)
  if (!group) throw notFound()
  return toGroup(group)
}

const activityOn = ({ id, name }: GroupRow, operation: 'create' | 'update' | 'delete') =>
  ({
    type: 'group_management',
    operation,
    resourceType: 'group',
    resourceId: id,
    description: `${operation}d group "${name}"`,
  }) as const

const shownOf = (group: GroupRow): Omit<Group, 'users'> => ({
  id: group.id,
  name: group.name,
  description: group.description,
  status: group.status,
  // Uses the stored count, because a list contains only the first GROUP_LIST_USERS members of each group.
  userCount: group.user_count,
  createdAt: group.created_at,
  updatedAt: group.updated_at,
})

const toGroup = (group: GroupWithMembers): Group => ({ ...shownOf(group), users: group.members })
