import type { Role } from '../../../shared/wire/roles.ts'
import type { Members } from '../../input/from-file.ts'
import { findAtPath } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

export const ROLE_MEMBERS: Members<keyof Role> = {
  id: false,
  name: true,
  displayName: true,
  description: true,
  isSystem: false,
  hasAdminPanelAccess: true,
  permissions: true,
  canInteractWithAI: true,
  canUseChat: true,
  userCount: false,
  createdBy: false,
  createdAt: false,
  updatedAt: false,
}

/** `analytics=reader`, in the form of `--permission`. */
const toPermissionTexts = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map((permission) => `${findAtPath(permission, 'section')}=${findAtPath(permission, 'level')}`)
    : value

export const ROLES: Described<Role> = {
  noun: 'role',
  command: 'roles',
  path: 'roles',
  itemsKey: 'roles',
  itemKey: 'role',
  isCalled: (role, name) => role.name === name,
  argument: 'name or id',
  keepsName: true,
  listView: {
    columns: [
      { path: 'name' },
      { path: 'displayName', title: 'DISPLAY NAME' },
      { path: 'isSystem', title: 'SYSTEM' },
      { path: 'userCount', title: 'USERS' },
      { path: 'permissions', toCell: toPermissionTexts, flexible: true },
    ],
    idPath: 'id',
    none: 'No roles. Create one:  aigw roles create NAME --display-name TEXT --description TEXT',
  },
  view: {
    columns: [
      { path: 'id' },
      { path: 'name' },
      { path: 'displayName', title: 'DISPLAY NAME' },
      { path: 'description' },
      { path: 'isSystem', title: 'SYSTEM' },
      { path: 'hasAdminPanelAccess', title: 'ADMIN PANEL' },
      { path: 'permissions', toCell: toPermissionTexts },
      { path: 'canInteractWithAI', title: 'AI' },
      { path: 'canUseChat', title: 'CHAT' },
      { path: 'userCount', title: 'USERS' },
      { path: 'createdAt', title: 'CREATED' },
      { path: 'updatedAt', title: 'UPDATED' },
    ],
    idPath: 'id',
    members: Object.keys(ROLE_MEMBERS),
  },
}
