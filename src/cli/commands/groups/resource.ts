import type { Group } from '../../../shared/wire/groups.ts'
import type { Members } from '../../input/from-file.ts'
import { eachAt } from '../../output/formats.ts'
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
    columns: [
      { path: 'name' },
      { path: 'status' },
      { path: 'userCount', title: 'USERS' },
      { path: 'createdAt', title: 'CREATED' },
      { path: 'description', flexible: true },
    ],
    idPath: 'id',
    none: 'No groups. Create one:  aigw groups create NAME --description TEXT',
  },
  view: {
    columns: [
      { path: 'id' },
      { path: 'name' },
      { path: 'status' },
      { path: 'description' },
      { path: 'users', toCell: eachAt('email') },
      { path: 'createdAt', title: 'CREATED' },
      { path: 'updatedAt', title: 'UPDATED' },
    ],
    idPath: 'id',
    members: Object.keys(GROUP_MEMBERS),
  },
}
