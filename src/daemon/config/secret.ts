import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import type { ConfigSources } from './sources.ts'
import { parseMasterKey, ValueFault } from './values.ts'

// The checks set `abort`. Without `abort`, the error message of a failed check would replace the error message of the
// union.
const Name = z.string().min(1, { abort: true })
// The pattern is strict, because a user may have entered the secret itself as the name, and a later error message
// contains the name.
const VariableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { abort: true })

/**
 * Creates the schema of a secret in the file: the text itself, or a reference to the text. `missing` is the error
 * message for a missing secret.
 */
export const secretReference = (missing?: string) =>
  z.union(
    [
      z.string(),
      z.strictObject({ env: VariableName }),
      z.strictObject({ file: Name }),
      z.strictObject({ credential: Name }),
    ],
    {
      error: ({ input }) =>
        input === undefined
          ? missing
          : 'must be a text in quotes, or one of {env: NAME}, {file: PATH}, {credential: NAME}',
    },
  )

export type SecretReference = z.output<ReturnType<typeof secretReference>>

/** Creates the schema of the master key in the file: a reference, or a command that prints the key. */
export const masterKeyReference = () =>
  z.union(
    [
      z.strictObject({ env: VariableName }),
      z.strictObject({ file: Name }),
      z.strictObject({ credential: Name }),
      z.strictObject({ command: z.array(Name).min(1, { abort: true }) }),
    ],
    {
      error: 'must be one of {file: PATH}, {credential: NAME}, {command: [PROGRAM, WORD…]}, {env: NAME}',
    },
  )

/** Returns the master key of a reference as 64 hex characters. Throws a ValueFault that does not contain the key. */
export function resolveMasterKey(
  reference: z.output<ReturnType<typeof masterKeyReference>>,
  sources: Pick<ConfigSources, 'env' | 'readFile' | 'runCommand'>,
  configFile: string,
): string {
  const [source = ''] = Object.values(reference).flat()
  if (!('command' in reference)) return parseMasterKey(resolveSecret(reference, sources, configFile), source)
  const [program = '', ...words] = reference.command
  let output: string
  try {
    if (sources.runCommand === undefined) throw new Error('this program runs no commands')
    output = sources.runCommand(program, words)
  } catch (error) {
    // The message omits the output of the command, because it may contain a part of the key.
    throw new ValueFault(`the command ${program} failed (${failureOf(error)}); it must print only the key`)
  }
  return parseMasterKey(withoutLineEnd(output), `the output of ${program}`)
}

function failureOf(error: unknown): string {
  const { status, code } = error as { status?: number | null; code?: string }
  return typeof status === 'number' ? `exit code ${status}` : (code ?? 'not started')
}

/**
 * Returns the text of a reference, without a trailing line break. Paths are relative to the folder of the configuration
 * file. Throws ValueFault.
 */
export function resolveSecret(
  reference: SecretReference,
  { env, readFile }: Pick<ConfigSources, 'env' | 'readFile'>,
  configFile: string,
): string {
  const secret = lookUp(reference, env, readFile, configFile)
  if (secret === '') throw new ValueFault('is empty; set a value or remove the key')
  return secret
}

function lookUp(
  reference: SecretReference,
  env: ConfigSources['env'],
  readFile: ConfigSources['readFile'],
  configFile: string,
): string {
  if (typeof reference === 'string') return reference
  if ('env' in reference) {
    const value = env[reference.env]
    if (value === undefined)
      throw new ValueFault(`environment variable ${reference.env} is not set; set it or use another form`)
    return withoutLineEnd(value)
  }
  if ('file' in reference) return readSecret(readFile, resolve(dirname(configFile), reference.file))
  const { credential } = reference
  if (credential.includes('/') || credential === '.' || credential === '..') {
    throw new ValueFault(`credential "${credential}" is a path; use only the name in LoadCredential=`)
  }
  const directory = env.CREDENTIALS_DIRECTORY
  if (!directory) {
    throw new ValueFault(
      `credential ${credential} requires CREDENTIALS_DIRECTORY; run under systemd with LoadCredential=${credential}:PATH`,
    )
  }
  return readSecret(readFile, join(directory, credential))
}

/**
 * Returns the text of a file, without a trailing line break. Throws a ValueFault that names the file but does not
 * contain its text.
 */
export function readSecret(readFile: ConfigSources['readFile'], path: string): string {
  try {
    return withoutLineEnd(readFile(path))
  } catch (error) {
    throw new ValueFault(`cannot read ${path} (${reasonOf(error)})`)
  }
}

const withoutLineEnd = (text: string): string => text.replace(/[\r\n]+$/, '')

/** Returns the reason why a file could not be read, worded for an error message. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
  const words: Record<string, string> = {
    ENOENT: 'it does not exist',
    EACCES: 'this user may not read it',
    EISDIR: 'it is a directory',
    ENOTDIR: 'a part of its path is not a directory',
  }
  return words[code] ?? code
}
