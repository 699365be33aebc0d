import { z } from 'zod'
import { SYSTEM_ROLES } from '../permissions.ts'
import { EMAIL_CHARS, NAME_CHARS, USERNAME } from '../spec-limits.ts'
import { IS_USAGE_BY_MODEL, UsageByModel, usageByModelFields } from './billing.ts'
import {
  closedObject,
  flag,
  listQuery,
  objectId,
  oneOf,
  optional,
  Pagination,
  readableName,
  readOnlyMembers,
  requestBody,
  storableText,
} from './common.ts'

/** Licence tiers. */
export const LICENSES = ['Essential', 'Growth', 'Ultra', 'Early Access'] as const
export type License = (typeof LICENSES)[number]

export const AUTH_TYPES = ['basic', 'enterprise'] as const

/** A user. `mfaEnabled` is always false: users have keys and never sign in. */
export const User = z
  .object({
    id: z.string(),
    name: z.string(),
    username: z.string(),
    email: z.string(),
    role: z.enum(SYSTEM_ROLES),
    license: z.enum(LICENSES),
    usageByModel: UsageByModel.meta({
      description: 'Whether requests may be billed in dollars, and the monthly limit; null is no limit',
    }),
    status: z.int().meta({ description: '1 active; 0 inactive: all keys of the user are rejected' }),
    isVerified: z.boolean(),
    setupCompleted: z.boolean(),
    authType: z.enum(AUTH_TYPES),
    mfaEnabled: z.boolean(),
    customRole: z.object({ id: z.string(), name: z.string(), displayName: z.string() }).nullable(),
    createdAt: z.string(),
    updatedAt: z.string(),
    lastActive: z.string().nullable().meta({ description: 'The last use of any key of the user, to the minute' }),
  })
  .meta({ id: 'User' })
export type User = z.infer<typeof User>

const name = readableName('name', NAME_CHARS)
const email = storableText('email')
  .trim()
  .toLowerCase()
  .max(EMAIL_CHARS, { error: `email may have at most ${EMAIL_CHARS} characters` })
  .pipe(z.email({ error: 'email must be an address such as ada@example.com' }))
const username = storableText('username')
  .trim()
  .toLowerCase()
  .regex(USERNAME, { error: 'username must have 3 to 30 of a-z, 0-9, "." and "-"' })
const role = oneOf('role', SYSTEM_ROLES)
const license = oneOf('license', LICENSES)
/**
 * Merged member by member. An update does not change an omitted member. A new user gets the default of an omitted
 * member.
 */
const usageByModel = closedObject(
  { ...usageByModelFields, enabled: optional(usageByModelFields.enabled) },
  IS_USAGE_BY_MODEL,
).partial()
/** Passwords are rejected: users authenticate with API keys, and the gateway stores no passwords. */
const password = z.null({ error: 'passwords are not supported: users authenticate with API keys' }).optional()

/**
 * The body of POST /users. `name` and `email` are required. The handler checks them, because the contract fixes the
 * error message.
 */
export const CreateUserRequest = requestBody('CreateUserRequest', {
  name: optional(name),
  email: optional(email),
  username: optional(username).meta({ description: 'Derived from the email if absent' }),
  password,
  role: optional(role),
  license: optional(license),
  usageByModel: optional(usageByModel),
  roleId: optional(objectId('roleId')),
  setupCompleted: optional(flag('setupCompleted')),
  authType: optional(oneOf('authType', AUTH_TYPES)),
})

const status = z.union([z.literal(0), z.literal(1)], { error: 'status must be 0 or 1' })

/** The members of a user that requests cannot change. */
export const USER_READ_ONLY = [
  'id',
  'authType',
  'mfaEnabled',
  'customRole',
  'createdAt',
  'updatedAt',
  'lastActive',
] as const satisfies (keyof User)[]

/**
 * The body of PUT /users/{userId}. Only the members in the body are changed. `roleId: null` removes the custom role.
 */
export const UpdateUserRequest = requestBody('UpdateUserRequest', {
  name: optional(name),
  username: optional(username),
  email: optional(email),
  password,
  role: optional(role),
  license: optional(license),
  usageByModel: optional(usageByModel),
  status: optional(status),
  roleId: objectId('roleId').nullable().optional(),
  setupCompleted: optional(flag('setupCompleted')),
  isVerified: optional(flag('isVerified')),
  ...readOnlyMembers(USER_READ_ONLY),
})

const USER_SORTS = ['createdAt', 'updatedAt', 'name', 'email', 'username'] as const

export const ListUsersQuery = listQuery(USER_SORTS).extend({
  role: role.optional(),
  license: license.optional(),
  status: z.enum(['0', '1'], { error: 'status must be 0 or 1' }).transform(Number).optional(),
})

/** Omits the members that a new user cannot have yet. */
export const CreateUserResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  user: User.omit({ customRole: true, updatedAt: true, lastActive: true, mfaEnabled: true }),
})
/** The response of an update. */
export const UserResponse = z.object({ success: z.literal(true), message: z.string(), user: User })
export const ShowUserResponse = z.object({ success: z.literal(true), user: User })
export const ListUsersResponse = z.object({ success: z.literal(true), users: z.array(User), pagination: Pagination })

const perLicense = <T extends z.ZodType>(schema: T) => z.record(z.enum(LICENSES), schema)

/** GET /licenses/availability. A limit of 0 means "no limit". In this case, the remainder is null. */
export const LicenseAvailabilityResponse = z.object({
  success: z.literal(true),
  limits: perLicense(z.int()),
  usage: perLicense(z.int()),
  remaining: perLicense(z.int().nullable()),
})
