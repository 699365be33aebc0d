/** Reads the API key from its source. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { CliError, EXIT, failedToRead, usageError } from '../errors.ts'
import type { Io, Note } from '../io.ts'
import { readStdin } from '../io.ts'
import { toShellWord } from '../output/shell-word.ts'
import { areCredentialsExposed, configPath, credentialsPath, isExposed } from './config-files.ts'
import type { Settings } from './profile.ts'

/** Longer than any key. */
export const KEY_BYTES = 4_096

/**
 * Validates that the key can be sent in a header: the key must be one line of visible ASCII. The usage error never
 * contains the key.
 */
export function toKey(text: string, from: string): string {
  const key = text.trim()
  if (key === '') throw usageError(`${from} contains no API key`)
  if (!/^[\x21-\x7e]+$/.test(key))
    throw usageError(`${from} is not an API key: one line of visible characters is expected`)
  return key
}

/** Returns the key of this run, or undefined if there is no key. */
export async function findKey(settings: Settings, io: Io, note: Note): Promise<string | undefined> {
  const { key } = settings
  switch (key.kind) {
    case 'none':
      return undefined
    case 'value':
      if (io.env.AIGW_API_KEY === undefined && (await areCredentialsExposed(io.env))) {
        await note(`warning: others can read your keys; run: chmod 600 ${credentialsPath(io.env)}`)
      }
      return toKey(key.value, 'AIGW_API_KEY')
    case 'file':
      if (key.path === '-') return toKey((await readStdin(io, KEY_BYTES, 'the API key')).toString(), 'stdin')
      if (await isExposed(key.path)) await note(`warning: others can read your key; run: chmod 600 ${key.path}`)
      return toKey(await readFile(key.path, 'utf8').catch(failedToRead(key.path)), key.path)
    case 'command':
      return toKey(await runKeyCommand(key.command, io), 'key_command')
  }
}

/** Returns hints for a key that the gateway rejected: the key's source, and how to use another key. */
export function keyHints({ key, profile }: Settings, env: Io['env']): string[] {
  const signIn = `Sign in again:      aigw login -P ${toShellWord(profile)}`
  switch (key.kind) {
    case 'none':
      return [signIn]
    case 'command':
      return [`The key came from the key_command of profile '${profile}' (${configPath(env)}).`]
    case 'value':
      if (key.from === 'profile') {
        return [`The key came from profile '${profile}' (${credentialsPath(env)}).`, signIn]
      }
      break
  }
  const named = key.kind === 'file' && key.from !== 'AIGW_API_KEY_FILE' ? `${key.from} ${key.path}` : key.from
  const saved = key.overrides === true ? `, which overrides the key of profile '${profile}'` : ''
  const origin = `The key came from ${named}${saved}.`
  const without = key.from === '--api-key-file' ? 'omit --api-key-file' : `unset ${key.from}`
  return key.overrides === true
    ? [origin, `Use the saved key:  ${without}`]
    : [origin, `Use another key:    ${without}, then aigw login`]
}

/** Like `findKey`, but throws an error with exit code 4 if there is no key. */
export async function getKey(settings: Settings, io: Io, note: Note): Promise<string> {
  const key = await findKey(settings, io, note)
  if (key !== undefined) return key
  const why = settings.key.kind === 'none' && settings.key.why !== undefined ? [settings.key.why] : []
  throw new CliError(EXIT.auth, `no API key for ${settings.baseUrl}`, {
    code: 'NO_API_KEY',
    hints: [
      ...why,
      `Sign in:     aigw login --base-url ${settings.baseUrl}`,
      'In scripts:  set AIGW_API_KEY or AIGW_API_KEY_FILE',
    ],
  })
}

function runKeyCommand(command: string | string[], io: Io): Promise<string> {
  const [program = '', ...words] = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
  return new Promise((resolve, reject) => {
    const options = { env: io.env, signal: io.signal, maxBuffer: KEY_BYTES, timeout: 60_000 }
    const child = execFile(program, words, options, (error, stdout) => {
      if (error === null) return resolve(stdout)
      // The error omits the command's output, because the output may contain a part of the key.
      reject(
        new CliError(EXIT.auth, `key_command failed (${error.code ?? error.signal ?? 'not started'})`, {
          code: 'KEY_COMMAND_FAILED',
          hints: ['Run it by hand to see the reason. It must print only the key.'],
        }),
      )
    })
    child.stderr?.pipe(io.stderr, { end: false })
  })
}
