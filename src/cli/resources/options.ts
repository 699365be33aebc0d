/** Flags that several commands share. */
import { type Command, Option } from 'commander'
import { PAGE_LIMIT } from '../../shared/spec-limits.ts'
import { usageError } from '../errors.ts'

export type ListFlags = { search?: string; limit: string; all: boolean }
export type ListInput = { search: string | undefined; limit: number; all: boolean }

/** Adds the flags of all list commands. `searched` describes the members that `--search` searches. */
export function addListOptions(command: Command, searched?: string): Command {
  if (searched !== undefined) command.option('--search <text>', `only those with this in ${searched}`)
  return command.option('--limit <n>', 'maximum number', String(PAGE_LIMIT.large)).option('--all', 'all of them', false)
}

/** Throws a usage error for an invalid limit. */
export function toListInput({ search, limit: text, all }: ListFlags): ListInput {
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1) return { search, limit, all }
  throw usageError(`--limit must be a whole number from 1 on, not '${text}'`)
}

export const addFromFileOption = (command: Command): Command =>
  command.option('--from-file <path>', "read fields from a JSON or YAML file, '-' for stdin; flags override it")

export type CreateFlags = { ifNotExists: boolean; strict: boolean }

/** Adds the flags that make a create command safe to repeat in a script. */
export const addCreateOptions = (command: Command): Command =>
  command
    .option('--if-not-exists', 'succeed if it exists already, and print it', false)
    .option('--strict', 'with --if-not-exists: exit 6 if the existing one differs', false)

export type RemoveFlags = { ignoreNotFound: boolean }

export const addRemoveOptions = (command: Command, noun: string): Command =>
  command.option('--ignore-not-found', `succeed if the ${noun} does not exist`, false)

export type SecretFlags = { saveTo?: string; force: boolean }

export const addSecretOptions = (command: Command): Command =>
  command
    .option(
      '--save-to <file>',
      'write the secret into this new file, mode 0600; stdout stays empty unless an output is chosen',
    )
    .addOption(new Option('--force', 'with --save-to: replace an existing file').default(false))
