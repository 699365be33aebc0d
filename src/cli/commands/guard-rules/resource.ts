import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import type { Members } from '../../input/from-file.ts'
import { columns } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

export const RULE_MEMBERS: Members<keyof GuardRule> = {
  id: false,
  name: true,
  kind: true,
  detector: true,
  description: true,
  pattern: true,
  words: true,
  caseSensitive: true,
  maxChars: true,
  validator: true,
  severity: true,
  direction: true,
  action: true,
  enabled: true,
  simulate: true,
  createdAt: false,
  updatedAt: false,
}

const IN_LISTS = columns(
  { ID: 'id', KIND: 'kind', DETECTOR: 'detector', DIRECTION: 'direction', ACTION: 'action', SEVERITY: 'severity' },
  { ENABLED: 'enabled', SIMULATE: 'simulate' },
)

const shared = {
  idPath: 'id',
  members: Object.keys(RULE_MEMBERS),
  none: 'No guard rules yet. Create one:  aigw guard-rules create NAME --kind dlp --detector keywords --word WORD',
}

/** Rules are found by name or id; upper and lower case are equivalent. */
export const GUARD_RULES: Described<GuardRule> = {
  noun: 'guard rule',
  command: 'guard-rules',
  path: '/api/admin/guard-rules',
  itemsKey: 'rules',
  itemKey: 'rule',
  isCalled: (rule, name) => rule.name === name,
  isWhole: true,
  takesNames: true,
  keepsName: true,
  argument: 'name or id, in upper or lower case',
  listView: { ...shared, columns: IN_LISTS },
  view: {
    ...shared,
    columns: [
      ...IN_LISTS,
      ...columns(
        { NAME: 'name', DESCRIPTION: 'description', PATTERN: 'pattern', WORDS: 'words' },
        { 'CASE SENSITIVE': 'caseSensitive', 'MAX CHARS': 'maxChars', VALIDATOR: 'validator', CREATED: 'createdAt' },
        { UPDATED: 'updatedAt' },
      ),
    ],
  },
}
