import type { ShieldPolicy } from '../../../shared/wire/shield.ts'
import { isObject, type Members } from '../../input/from-file.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

export const SHIELD_POLICY_MEMBERS: Members<keyof ShieldPolicy> = {
  id: false,
  name: true,
  description: true,
  type: false,
  createdAt: false,
  updatedAt: false,
  policy: true,
}

/** Returns the fields of a document, as `--set` accepts them. */
const toSettingTexts = (document: unknown, before = ''): string[] => {
  if (!isObject(document)) return []
  return Object.entries(document).flatMap(([field, value]) => {
    if (value === null) return []
    return isObject(value) ? toSettingTexts(value, `${before}${field}.`) : `${before}${field}=${value}`
  })
}

/** Policies are found by name or id; upper and lower case are equivalent. */
export const SHIELD_POLICIES: Described<ShieldPolicy> = {
  noun: 'prompt shield policy',
  command: 'shield policies',
  path: '/api/admin/prompt-shield-policies',
  itemsKey: 'policies',
  itemKey: 'policy',
  isCalled: (policy, name) => policy.name === name,
  isWhole: true,
  takesNames: true,
  keepsName: true,
  argument: 'name or id, in upper or lower case',
  listView: {
    columns: columns(
      { ID: 'id', TYPE: 'type', SENSITIVITY: 'policy.sensitivity', MODE: 'policy.mode' },
      { DESCRIPTION: flexible('description') },
    ),
    idPath: 'id',
  },
  view: {
    columns: columns(
      { ID: 'id', NAME: 'name', DESCRIPTION: 'description', TYPE: 'type' },
      { POLICY: ['policy', (document: unknown) => toSettingTexts(document).join(' ')], CREATED: 'createdAt' },
      { UPDATED: 'updatedAt' },
    ),
    idPath: 'id',
    members: Object.keys(SHIELD_POLICY_MEMBERS),
  },
}
