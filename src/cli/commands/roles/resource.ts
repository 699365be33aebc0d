import type { Role } from '../../../shared/wire/roles.ts'
import type { Members } from '../../input/from-file.ts'
import { columns, findAtPath, flexible } from '../../output/formats.ts'
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

/** Formats permissions as `--permission` accepts them, for example `analytics=reader`. */
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
    columns: columns(
      { NAME: 'name', 'DISPLAY NAME': 'displayName', SYSTEM: 'isSystem', USERS: 'userCount' },
      { PERMISSIONS: flexible('permissions', toPermissionTexts) },
    ),
    idPath: 'id',
    none: 'No roles. Create one:  aigw roles create NAME --display-name TEXT --description TEXT',
  },
  view: {
    columns: columns(
      { ID: 'id', NAME: 'name', 'DISPLAY NAME': 'displayName', DESCRIPTION: 'description', SYSTEM: 'isSystem' },
      { 'ADMIN PANEL': 'hasAdminPanelAccess', PERMISSIONS: ['permissions', toPermissionTexts] },
      { AI: 'canInteractWithAI', CHAT: 'canUseChat', USERS: 'userCount', CREATED: 'createdAt', UPDATED: 'updatedAt' },
    ),
    idPath: 'id',
    members: Object.keys(ROLE_MEMBERS),
  },
}
