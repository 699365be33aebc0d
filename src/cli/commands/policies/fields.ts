import { type Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { addFromFileOption, type Fields, isObject, readFields, textIn } from '../../input/from-file.ts'
import { repeatable } from '../../input/repeatable.ts'
import { type Setting, toSetting } from './document.ts'
import { POLICY_MEMBERS } from './view.ts'

/** What create and update share. */
export type PolicyFlags = { description?: string; set: string[]; fromFile?: string }

/** @param example of a setting */
export const addPolicyOptions = (command: Command, example = 'pii.action=mask'): Command =>
  addFromFileOption(
    command
      .option('-d, --description <text>', 'what it is for')
      .addOption(
        repeatable(new Option('--set <field=value>', `a field of its document, such as ${example}; repeatable`)),
      ),
  )

export const FIELDS_HELP = '\nAll fields of a document:  aigw policies show public -o yaml'

/** What flags and file say; undefined is what neither does. */
export type PolicyInput = {
  name: string | undefined
  description: string | undefined
  /** The document in the file. */
  document: object | undefined
  /** Of the flags; they are set in the document beside all others. */
  settings: Setting[]
}

/** Reads them together; flags win. Throws a usage error for what cannot be meant. */
export async function readPolicy(context: CliContext, flags: PolicyFlags): Promise<PolicyInput> {
  const settings = flags.set.map(toSetting)
  const file: Fields = await readFields(context, flags.fromFile, POLICY_MEMBERS)
  const { policy: document } = file
  if (document !== undefined && !isObject(document)) throw usageError("'policy' in the file must be an object")
  return {
    name: textIn(file, 'name'),
    description: flags.description ?? textIn(file, 'description'),
    document,
    settings,
  }
}
