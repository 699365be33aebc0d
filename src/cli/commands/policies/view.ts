import type { Policy } from '../../../shared/wire/policies.ts'
import type { Members } from '../../input/from-file.ts'
import { toSettingTexts } from './document.ts'

export const POLICY_ARGUMENT = 'name or id, in any case'

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

export const POLICY_LIST = {
  columns: [
    { path: 'id' },
    { path: 'type' },
    { path: 'isActive', title: 'ACTIVE' },
    { path: 'description', flexible: true },
  ],
  idPath: 'id',
}

export const POLICY_VIEW = {
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
}
