import type { User } from '../../../shared/wire/users.ts'
import type { Members } from '../../input/from-file.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

const USAGE_BY_MODEL = ['enabled', 'dollarLimit'] as const satisfies (keyof User['usageByModel'])[]

/** The members that `create` and `update` accept. */
export const USER_MEMBERS: Members<keyof User> = {
  id: false,
  name: true,
  username: true,
  email: true,
  role: true,
  license: true,
  usageByModel: USAGE_BY_MODEL,
  status: false,
  isVerified: false,
  setupCompleted: true,
  authType: false,
  mfaEnabled: false,
  customRole: false,
  createdAt: false,
  updatedAt: false,
  lastActive: false,
}

/** The values of `status` in the API. */
export const USER_STATUS = { inactive: 0, active: 1 } as const

const toStatus = (value: unknown): unknown => (value === USER_STATUS.active ? 'active' : 'inactive')

/** Emails and usernames are stored in lower case. One user's name may equal another user's username. */
export const USERS: Described<User> = {
  noun: 'user',
  command: 'users',
  path: 'users',
  itemsKey: 'users',
  itemKey: 'user',
  isCalled: ({ name, username, email }, given) =>
    name === given || username === given.toLowerCase() || email === given.toLowerCase(),
  sharesNames: true,
  argument: 'id, email, username or name',
  view: {
    columns: columns(
      { NAME: flexible('name'), EMAIL: 'email', ROLE: 'role', 'CUSTOM ROLE': 'customRole.name', LICENSE: 'license' },
      { STATUS: ['status', toStatus], ID: 'id' },
    ),
    idPath: 'id',
    members: Object.keys(USER_MEMBERS),
    none: 'No users found.',
  },
}
