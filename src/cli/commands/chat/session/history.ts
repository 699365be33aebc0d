/** Stores the messages that users typed in earlier sessions. */
import { join } from 'node:path'
import type { Io } from '../../../io.ts'
import { appendState, findStateDir, readState, writeState } from '../../../profile/state-files.ts'

const ENTRIES = 1_000

/** The typed messages, newest first. */
export type History = {
  entries: string[]
  add(message: string): Promise<void>
}

/**
 * Returns the history of all sessions of this user: a file with one JSON string per line, mode 0600. Write failures are
 * ignored.
 */
export async function loadHistory(env: Io['env']): Promise<History> {
  const folder = await findStateDir(env)
  const path = folder === undefined ? undefined : join(folder, 'chat-history')
  const kept = path === undefined ? [] : parseHistory(await readState(path))
  const entries = kept.slice(-ENTRIES).reverse()
  const ignore = () => {}
  // Shortens the file only rarely, because this would lose messages that another session appends at the same moment.
  if (path !== undefined && kept.length > 2 * ENTRIES) {
    await writeState(path, kept.slice(-ENTRIES).map(toLine).join('')).catch(ignore)
  }
  return {
    entries,
    async add(message) {
      if (entries[0] === message) return
      entries.unshift(message)
      entries.splice(ENTRIES)
      if (path !== undefined) await appendState(path, toLine(message)).catch(ignore)
    },
  }
}

const toLine = (message: string): string => `${JSON.stringify(message)}\n`

function parseHistory(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    try {
      const entry: unknown = JSON.parse(line)
      return typeof entry === 'string' ? [entry] : []
    } catch {
      return []
    }
  })
}
