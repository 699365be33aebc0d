/** Reads and writes files that the client keeps between runs. */
import { mkdir, open, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Io } from '../io.ts'
import { replaceFile } from './config-files.ts'

/**
 * Returns the folder of the client's state: `$XDG_STATE_HOME/aigw`, by default `~/.local/state/aigw` (XDG Base
 * Directory). Returns undefined if `AIGW_NO_HISTORY` is set, or if the user has no home folder.
 */
export async function findStateDir(env: Io['env']): Promise<string | undefined> {
  if ((env.AIGW_NO_HISTORY ?? '') !== '') return undefined
  if (env.XDG_STATE_HOME?.startsWith('/')) return join(env.XDG_STATE_HOME, 'aigw')
  const home = env.HOME ?? ''
  const found = home === '' ? undefined : await stat(home).catch(() => undefined)
  return found?.isDirectory() ? join(home, '.local', 'state', 'aigw') : undefined
}

/** Reads the text of a file. Returns an empty text if the file is unreadable, because state is optional. */
export const readState = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '')

/** Replaces a file and sets its mode to 0600. Rejects on failure. */
export async function writeState(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await replaceFile(path, content, 0o600)
}

/** Appends to a file and sets its mode to 0600. Rejects on failure. */
export async function appendState(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(path, 'a', 0o600)
  try {
    await file.chmod(0o600)
    await file.writeFile(content)
  } finally {
    await file.close()
  }
}
