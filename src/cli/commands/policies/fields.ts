import { usageError } from '../../errors.ts'
import type { Field } from '../../input/fields.ts'
import { type Fields, isObject } from '../../input/from-file.ts'
import { type Setting, toSetting, withSettings } from './document.ts'

/** What create and update share, also for prompt shield policies. `example` is of a setting. */
export const policyFields = (example: string): [Field, Field] => [
  { member: 'description', flag: '-d, --description <text>', help: 'its purpose', isText: true },
  {
    ...{ member: 'settings', flag: '--set <field=value>', isList: true, parse: toSetting },
    help: `a field of its document, such as ${example}; repeatable`,
  },
]

export const NAME_FIELD = { member: 'name', flag: '[name]', ask: 'Name of the policy:' }

type PolicyInput = {
  /** The document in the file. */
  document: object | undefined
  /** Of the flags; they are set in the document in addition to all others. */
  settings: Setting[]
  /** The other members. */
  others: Fields
}

/** Throws a usage error for a document that is no object. */
function splitPolicy({ policy: document, settings, ...others }: Fields): PolicyInput {
  if (document !== undefined && !isObject(document)) throw usageError("'policy' in the file must be an object")
  return { document, settings: Array.isArray(settings) ? settings : [], others }
}

/** A new policy, with its whole document. */
export function toNewPolicy(input: Fields): Fields {
  const { document = {}, settings, others } = splitPolicy(input)
  return { ...others, policy: withSettings(document, settings) }
}

/** A changed one. Settings are changes of the document in the file or, without it, of the current one. */
export function toPolicyChange(input: Fields) {
  const { document, settings, others } = splitPolicy(input)
  if (settings.length === 0) return { changes: { ...others, policy: document } }
  return {
    changes: { ...others, policy: settings },
    complete: (now: { policy: object }) => ({ policy: withSettings(document ?? now.policy, settings) }),
  }
}
