import type { Policy } from '../../../shared/wire/policies.ts'
import type { Members } from '../../input/from-file.ts'
import type { Described } from '../../resources/resolve.ts'
import { toSettingTexts } from './document.ts'

export const POLICY_MEMBERS: Members<keyof Policy> = {
  id: false,
  name: true,
  description: true,
  type: false,
  isActive: false,
  policyHash: false,
  createdAt: false,
  updatedAt: false,
  policy: true,
}

/** Policies are found by name or id, in upper or lower case. */
export const POLICIES: Described<Policy> = {
  noun: 'policy',
  command: 'policies',
  path: 'smltp-policies',
  itemsKey: 'policies',
  itemKey: 'policy',
  isCalled: (policy, name) => policy.name === name,
  takesNames: true,
  keepsName: true,
  argument: 'name or id, in upper or lower case',
  listView: {
    columns: [
      { path: 'id' },
      { path: 'type' },
      { path: 'isActive', title: 'ACTIVE' },
      { path: 'description', flexible: true },
    ],
    idPath: 'id',
  },
  view: {
    columns: [
      { path: 'id' },
      { path: 'name' },
      { path: 'description' },
      { path: 'type' },
      { path: 'isActive', title: 'ACTIVE' },
      { path: 'policy', toCell: (document: unknown) => toSettingTexts(document).join(' ') },
      { path: 'policyHash', title: 'HASH' },
      { path: 'createdAt', title: 'CREATED' },
      { path: 'updatedAt', title: 'UPDATED' },
    ],
    idPath: 'id',
    members: Object.keys(POLICY_MEMBERS),
  },
}
