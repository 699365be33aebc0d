import type { Group } from '../../../shared/wire/groups.ts'
import type { Members } from '../../input/from-file.ts'
import { columns, eachAt, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

export const GROUP_MEMBERS: Members<keyof Group> = {
  id: false,
  name: true,
  description: true,
  status: true,
  userCount: false,
  users: true,
  createdAt: false,
  updatedAt: false,
}

export const GROUPS: Described<Group> = {
  noun: 'group',
  command: 'groups',
  path: 'groups',
  itemsKey: 'groups',
  itemKey: 'group',
  isCalled: (group, name) => group.name === name,
  argument: 'name or id',
  listView: {
    columns: columns(
      { NAME: 'name', STATUS: 'status', USERS: 'userCount', CREATED: 'createdAt' },
      { DESCRIPTION: flexible('description') },
    ),
    idPath: 'id',
    none: 'No groups. Create one:  aigw groups create NAME --description TEXT',
  },
  view: {
    columns: columns(
      { ID: 'id', NAME: 'name', STATUS: 'status', DESCRIPTION: 'description', USERS: ['users', eachAt('email')] },
      { CREATED: 'createdAt', UPDATED: 'updatedAt' },
    ),
    idPath: 'id',
    members: Object.keys(GROUP_MEMBERS),
  },
}
