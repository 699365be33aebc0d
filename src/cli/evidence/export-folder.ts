import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { CliContext } from '../context.ts'
import { failedToWrite, isErrno, usageError } from '../errors.ts'
import { EXPORT_FILES, VIOLATIONS_FILE } from './manifest.ts'

/**
 * Runs `fill` on a temporary folder and then replaces `path` with this folder. If `fill` throws, removes the temporary
 * folder. `path` may be an empty folder or, after a confirmation, an earlier export. Throws a usage error if `path` has
 * any other content.
 */
export async function inNewFolder<T>(
  context: CliContext,
  path: string,
  fill: (folder: string) => Promise<T>,
): Promise<T> {
  const target = resolve(path)
  const earlier = await filesIn(target)
  const foreign = earlier.filter((name) => !new Set<string>([...EXPORT_FILES, VIOLATIONS_FILE]).has(name))
  if (foreign.length > 0)
    throw usageError(`${path} contains more than an export (${foreign[0]})`, ['Name a new directory.'])
  if (earlier.length > 0) await context.confirm(`Replace the export in ${path}?`)

  const draft = `${target}.${process.pid}.new`
  const replaced = `${target}.${process.pid}.old`
  await mkdir(draft, { mode: 0o700 }).catch(failedToWrite(path))
  try {
    const result = await fill(draft)
    // Renaming a folder is atomic, so a crash never leaves a mixture of old and new files.
    if (earlier.length > 0) await rename(target, replaced)
    else await rmdir(target).catch(ignoreAbsent)
    await rename(draft, target)
    await rm(replaced, { recursive: true, force: true })
    return result
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

function ignoreAbsent(error: unknown): void {
  if (!isErrno(error) || error.code !== 'ENOENT') throw error
}

/** Returns the names in a folder, or an empty list if the folder does not exist. */
async function filesIn(path: string): Promise<string[]> {
  try {
    return await readdir(path)
  } catch (error) {
    if (isErrno(error) && error.code === 'ENOENT') return []
    throw usageError(`${path} is not a readable directory`)
  }
}
