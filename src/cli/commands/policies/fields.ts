/** The flags of policies and prompt shield policies. */
import { usageError } from '../../errors.ts'
import { type Field, field } from '../../input/fields.ts'
import { type Fields, isObject } from '../../input/from-file.ts'
import { type Setting, toSetting, withSettings } from './document.ts'

/** Returns the fields of create and update. `example` is a setting for the help text. */
export const policyFields = (example: string): [Field, Field] => [
  { member: 'description', flag: '-d, --description <text>', help: 'its purpose', isText: true },
  field('settings', '--set <field=value>', `a field of its document, such as ${example}; repeatable`, {
    isList: true,
    parse: toSetting,
  }),
]

export const NAME_FIELD = { member: 'name', flag: '[name]', ask: 'Name of the policy:' }

type PolicyInput = {
  /** The document in the file. */
  document: object | undefined
  /** The settings from `--set`. The settings are applied to the document. */
  settings: Setting[]
  /** The other members. */
  others: Fields
}

/** Throws a usage error for a document that is not an object. */
function splitPolicy({ policy: document, settings, ...others }: Fields): PolicyInput {
  if (document !== undefined && !isObject(document)) throw usageError("'policy' in the file must be an object")
  return { document, settings: Array.isArray(settings) ? settings : [], others }
}

/** Returns the request that creates a policy. It contains the whole document. */
export function toNewPolicy(input: Fields): Fields {
  const { document = {}, settings, others } = splitPolicy(input)
  return { ...others, policy: withSettings(document, settings) }
}

/**
 * Returns the request that changes a policy. The settings are applied to the document in the file or, without a file,
 * to the current document.
 */
export function toPolicyChange(input: Fields) {
  const { document, settings, others } = splitPolicy(input)
  if (settings.length === 0) return { changes: { ...others, policy: document } }
  return {
    changes: { ...others, policy: settings },
    complete: (now: { policy: object }) => ({ policy: withSettings(document ?? now.policy, settings) }),
  }
}
