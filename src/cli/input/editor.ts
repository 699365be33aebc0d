import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unreadable, usageError } from '../errors.ts'
import type { Io } from '../io.ts'

/**
 * Writes a text to a file with mode 0600, opens the file in `$VISUAL` or `$EDITOR`, and returns the edited text. Throws
 * a usage error if the editor fails.
 */
export async function editText(text: string, env: Io['env'], fileName: string): Promise<string> {
  const editor = [env.VISUAL, env.EDITOR].find((command) => command !== undefined && command !== '') ?? 'vi'
  const folder = await mkdtemp(join(tmpdir(), 'aigw-'))
  try {
    const path = join(folder, fileName)
    await writeFile(path, text, { mode: 0o600 })
    // The variable is treated as a command line, because values such as `code --wait` are common.
    const child = spawn(`${editor} "${path}"`, { shell: true, stdio: 'inherit', env })
    const [exitCode] = await once(child, 'close')
    if (exitCode !== 0) throw usageError(`the editor '${editor}' failed`, ['Choose another:  export EDITOR=nano'])
    return (await readFile(path, 'utf8')).replace(/\n+$/, '')
  } catch (error) {
    throw error instanceof Error && 'syscall' in error ? unreadable('the edited file', error) : error
  } finally {
    await rm(folder, { recursive: true })
  }
}
