// The routes of users.
import { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import { DoneResponse, FlatError, StructuredError } from '../../../shared/wire/common.ts'
import {
  CreateUserRequest,
  CreateUserResponse,
  type License,
  ListUsersQuery,
  ListUsersResponse,
  ShowUserResponse,
  UpdateUserRequest,
  USER_READ_ONLY,
  UserResponse,
} from '../../../shared/wire/users.ts'
import type { Db } from '../../platform/db/db.ts'
import { toPagination, toSearchText } from '../../platform/db/list-page.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { idOf, type Route, reply, route } from '../../platform/http/route.ts'
import { type Activity, type ChangeDeps, change } from '../../records/audit/change.ts'
import { removeUserFromGroups } from '../groups/store.ts'
import {
  type Account,
  getAccount,
  getCustomRole,
  requireMayChange,
  requireWithinRights,
  unknownUser,
} from './account.ts'
import {
  deleteUser,
  findUserDetails,
  insertUser,
  listUsers,
  setCustomRole,
  type UserDetails,
  type UserRow,
  updateUser,
} from './store.ts'
import { changedUsageByModel, NO_USAGE_BY_MODEL, toUsageByModel } from './usage-by-model.ts'
import { freeUsername } from './username.ts'
import { toCreatedUser, toUser } from './view.ts'

const exceedsRights = 'Not an administrator, or the user has more rights than the key'
const notFound = { 404: { description: 'No user of this tenant has this id', schema: StructuredError } }

export type UserDeps = ChangeDeps & {
  /** @throws LICENSE_UNAVAILABLE if the tenant has no free licence of this kind */
  requireFreeLicense(tx: Db, tenantId: string, license: License): Promise<void>
}

/** Returns the routes that manage users. */
export function userRoutes({ requireFreeLicense, ...deps }: UserDeps): Route[] {
  const { db, clock } = deps
  return [
    route({
      method: 'GET',
      path: '/api/external/users',
      access: 'user-management',
      errors: 'flat',
      summary: 'List users',
      tags: ['Users'],
      query: ListUsersQuery,
      responses: {
        200: { description: 'One page', schema: ListUsersResponse },
      },
      async handle({ caller, query }) {
        const { users, total } = await listUsers(db, caller.tenantId, query)
        return reply(200, {
          success: true,
          users: users.map(toUser),
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListUsersResponse>)
      },
    }),
    route({
      method: 'POST',
      path: '/api/external/users',
      access: 'user-management',
      errors: 'flat',
      summary: 'Create a user',
      tags: ['Users'],
      body: CreateUserRequest,
      bodyRequired: true,
      responses: {
        201: { description: 'The new user', schema: CreateUserResponse },
        400: { description: 'A field is missing or invalid, or all licences are in use', schema: FlatError },
        403: { description: 'Not an administrator, or the role has more rights than the key', schema: FlatError },
        409: { description: 'Email, username or name exists', schema: FlatError },
      },
      async handle(context) {
        const { body } = context
        const { name, email } = requiredFields(body)
        const { authType = 'basic', role = 'user', license = 'Essential' } = body
        const { tenantId } = context.caller
        const user = await change(deps, context, async ({ tx, caller, record }) => {
          const username = body.username ?? (await freeUsername(tx, tenantId, email))
          const now = isoTime(clock.now())
          const account: Account = {
            user: {
              id: newId(clock.now()),
              tenant_id: tenantId,
              name,
              email,
              username,
              role,
              status: 1,
              license,
              auth_type: authType,
              // Users of an enterprise directory count as verified, because the directory verifies them.
              is_verified: authType === 'enterprise' ? 1 : 0,
              setup_completed: body.setupCompleted ? 1 : 0,
              search_text: toSearchText(name, email, username),
              ...changedUsageByModel(NO_USAGE_BY_MODEL, body.usageByModel),
              created_at: now,
              updated_at: now,
            },
            customRole: body.roleId === undefined ? undefined : await getCustomRole(tx, tenantId, body.roleId),
          }
          requireWithinRights(caller, account)
          await requireFreeLicense(tx, tenantId, license)
          await insertUser(tx, account.user)
          await setCustomRole(tx, tenantId, account.user.id, account.customRole?.id)
          await record(activity('create', account, { role, customRole: account.customRole?.name ?? null, license }))
          return account.user
        })
        return reply(201, {
          success: true,
          message: 'User created',
          user: toCreatedUser(user),
        } satisfies z.input<typeof CreateUserResponse>)
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/users/{userId}',
      access: 'user-management',
      errors: 'structured',
      summary: 'Show a user',
      tags: ['Users'],
      responses: { ...notFound, 200: { description: 'The user', schema: ShowUserResponse } },
      async handle({ caller, params }) {
        const userId = idOf(params.userId, unknownUser)
        const user = await findUserDetails(db, caller.tenantId, userId)
        if (!user) throw unknownUser(userId)
        return reply(200, { success: true, user: toUser(user) } satisfies z.input<typeof ShowUserResponse>)
      },
    }),
    route({
      method: 'PUT',
      path: '/api/external/users/{userId}',
      access: 'user-management',
      rate: 'read',
      errors: 'structured',
      summary: "Update a user; deactivating a user disables the user's keys at once",
      tags: ['Users'],
      body: UpdateUserRequest,
      responses: {
        ...notFound,
        403: { description: exceedsRights, schema: StructuredError },
        200: { description: 'The updated user', schema: UserResponse },
        400: {
          description: 'A field is invalid; flat body when all licences are in use',
          schema: z.union([StructuredError, FlatError]),
        },
        409: {
          description: 'Email, username or name exists, or the tenant would lose its last administrator',
          schema: StructuredError,
        },
      },
      async handle(context) {
        const { tenantId } = context.caller
        const userId = idOf(context.params.userId, unknownUser)
        const user = await change(deps, context, async ({ tx, caller, record }) => {
          const before = await getAccount(tx, tenantId, userId)
          const details = (await findUserDetails(tx, tenantId, userId)) as UserDetails
          const body = changesIn(context.body, USER_READ_ONLY, toUser(details))
          const after: Account = {
            user: changed(before.user, body, isoTime(clock.now())),
            customRole: body.roleId === undefined ? before.customRole : undefined,
          }
          if (body.roleId) after.customRole = await getCustomRole(tx, tenantId, body.roleId)
          await requireMayChange(tx, caller, before, after)
          const { license } = after.user
          if (license !== before.user.license) await requireFreeLicense(tx, tenantId, license)
          await updateUser(tx, after.user)
          if (after.customRole?.id !== before.customRole?.id) {
            await setCustomRole(tx, tenantId, userId, after.customRole?.id)
          }
          await record(activity('update', after, { changes: changesBetween(before, after) }))
          return (await findUserDetails(tx, tenantId, userId)) as UserDetails
        })
        return reply(200, {
          success: true,
          message: 'User updated',
          user: toUser(user),
        } satisfies z.input<typeof UserResponse>)
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/external/users/{userId}',
      access: 'user-management',
      errors: 'structured',
      summary: "Delete a user and the user's keys; usage and audit records are kept",
      tags: ['Users'],
      responses: {
        ...notFound,
        403: { description: exceedsRights, schema: StructuredError },
        200: { description: 'The user was deleted', schema: DoneResponse },
        409: { description: 'The tenant would lose its last administrator', schema: StructuredError },
      },
      async handle(context) {
        const { tenantId } = context.caller
        const userId = idOf(context.params.userId, unknownUser)
        await change(deps, context, async ({ tx, caller, record }) => {
          const account = await getAccount(tx, tenantId, userId)
          await requireMayChange(tx, caller, account, undefined)
          await removeUserFromGroups(tx, tenantId, userId)
          await deleteUser(tx, tenantId, userId)
          await record(activity('delete', account))
        })
        return reply(200, { success: true, message: 'User deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

/** @throws MISSING_FIELDS */
function requiredFields({ name, email }: z.output<typeof CreateUserRequest>): { name: string; email: string } {
  if (name !== undefined && email !== undefined) return { name, email }
  throw new GatewayError('MISSING_FIELDS', `A user needs ${name === undefined ? 'a name' : 'an email'}.`)
}

/** Returns the user with the requested changes applied. */
function changed(
  user: UserRow,
  body: Omit<z.output<typeof UpdateUserRequest>, (typeof USER_READ_ONLY)[number]>,
  now: string,
): UserRow {
  const { name = user.name, email = user.email, username = user.username } = body
  const { role = user.role, license = user.license, status = user.status } = body
  const { isVerified = user.is_verified === 1, setupCompleted = user.setup_completed === 1 } = body
  return {
    ...user,
    name,
    email,
    username,
    role,
    license,
    status,
    is_verified: isVerified ? 1 : 0,
    setup_completed: setupCompleted ? 1 : 0,
    search_text: toSearchText(name, email, username),
    ...changedUsageByModel(user, body.usageByModel),
    updated_at: now,
  }
}

/**
 * Returns the changed properties, for the audit entry. Personal data appears only as "changed", because these entries
 * are never expunged.
 */
function changesBetween(before: Account, after: Account): Record<string, unknown> {
  const facts = ({ user, customRole }: Account) => ({
    role: user.role,
    customRole: customRole?.name ?? null,
    license: user.license,
    status: user.status,
    isVerified: user.is_verified === 1,
    setupCompleted: user.setup_completed === 1,
    usageByModelEnabled: user.usage_by_model === 1,
    dollarLimit: toUsageByModel(user).dollarLimit,
  })
  const was: Record<string, unknown> = facts(before)
  const changes = Object.entries(facts(after)).filter(([name, value]) => value !== was[name])
  const renamed = (['name', 'email', 'username'] as const).filter((name) => after.user[name] !== before.user[name])
  return Object.fromEntries([...changes, ...renamed.map((name) => [name, 'changed'])])
}

const WORDS = { create: 'created', update: 'updated', delete: 'deleted' } as const

const activity = (
  operation: keyof typeof WORDS,
  { user }: Account,
  metadata: Record<string, unknown> = {},
): Activity => ({
  type: 'user_management',
  operation,
  resourceType: 'user',
  resourceId: user.id,
  description: `${WORDS[operation]} user ${user.id}`,
  metadata,
})
