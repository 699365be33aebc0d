import type { Policy } from '../../../shared/wire/policies.ts'
import type { Members } from '../../input/from-file.ts'
import { columns, flexible } from '../../output/formats.ts'
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

/** Policies are found by name or id; upper and lower case are equivalent. */
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
    columns: columns({ ID: 'id', TYPE: 'type', ACTIVE: 'isActive', DESCRIPTION: flexible('description') }),
    idPath: 'id',
  },
  view: {
    columns: columns(
      { ID: 'id', NAME: 'name', DESCRIPTION: 'description', TYPE: 'type', ACTIVE: 'isActive' },
      { POLICY: ['policy', (document: unknown) => toSettingTexts(document).join(' ')], HASH: 'policyHash' },
      { CREATED: 'createdAt', UPDATED: 'updatedAt' },
    ),
    idPath: 'id',
    members: Object.keys(POLICY_MEMBERS),
  },
}
