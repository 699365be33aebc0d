import type { License, User } from '../../../shared/wire/users.ts'
import { usageError } from '../../errors.ts'
import type { Members } from '../../input/from-file.ts'

const USAGE_BY_MODEL = ['enabled', 'dollarLimit'] as const satisfies (keyof User['usageByModel'])[]

/** As `create` and `update` both take them. */
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

/** As `status` is on the wire. */
export const USER_STATUS = { inactive: 0, active: 1 } as const

const toStatus = (value: unknown): unknown => (value === USER_STATUS.active ? 'active' : 'inactive')

export const USER_VIEW = {
  columns: [
    { path: 'name', flexible: true },
    { path: 'email' },
    { path: 'role' },
    { path: 'customRole.name', title: 'CUSTOM ROLE' },
    { path: 'license' },
    { path: 'status', toCell: toStatus },
    { path: 'id' },
  ],
  idPath: 'id',
  members: Object.keys(USER_MEMBERS),
  none: 'Nobody found.',
}

const LICENSES: Record<License, true> = { Essential: true, Growth: true, Ultra: true, 'Early Access': true }
export const LICENSE_CHOICES = Object.keys(LICENSES)

const AUTH_TYPES: Record<User['authType'], true> = { basic: true, enterprise: true }
export const AUTH_TYPE_CHOICES = Object.keys(AUTH_TYPES)

/** A licence as it is spelt, however it was typed. Throws a usage error for one that there is not. */
export function toLicense(text: string): string {
  const license = LICENSE_CHOICES.find((choice) => choice.toLowerCase() === text.toLowerCase())
  if (license !== undefined) return license
  throw usageError(`there is no licence '${text}'`, [`Licences:  ${LICENSE_CHOICES.join(', ')}`])
}
