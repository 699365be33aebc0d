import { mkdir, open, readFile, rename, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Io } from '../io.ts'

/**
 * Where the client keeps what it remembers between runs: `$XDG_STATE_HOME/aigw`, else `~/.local/state/aigw` (XDG Base
 * Directory). Undefined with `AIGW_NO_HISTORY`, and for users whose home does not exist, which is then not made.
 */
export async function findStateDir(env: Io['env']): Promise<string | undefined> {
  if ((env.AIGW_NO_HISTORY ?? '') !== '') return undefined
  if (env.XDG_STATE_HOME?.startsWith('/')) return join(env.XDG_STATE_HOME, 'aigw')
  const home = env.HOME ?? ''
  const found = home === '' ? undefined : await stat(home).catch(() => undefined)
  return found?.isDirectory() ? join(home, '.local', 'state', 'aigw') : undefined
}

/** The text of a file; empty when it cannot be read: what is remembered is a comfort, never a reason to fail. */
export const readState = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '')

/** Replaces a file, readable by its owner only from its first byte on. Rejects when that is not possible. */
export async function writeState(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${path}.${process.pid}.new`
  const file = await open(draft, 'w', 0o600)
  try {
    await file.writeFile(content)
    await file.close()
    await rename(draft, path)
  } catch (error) {
    await file.close().catch(() => {})
    await unlink(draft).catch(() => {})
    throw error
  }
}

/** Adds to a file that only its owner may read, also when it was made otherwise. Rejects when that is not possible. */
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
