import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Runs `use` with an empty directory below `parent`, and removes the directory afterwards. `parent` is in the data
 * directory: many machines keep the temporary directory in memory, and an upload may take a gigabyte.
 */
export async function withUploadDirectory<T>(parent: string, use: (directory: string) => Promise<T>): Promise<T> {
  await mkdir(parent, { recursive: true, mode: 0o700 })
  const directory = await mkdtemp(join(parent, 'upload-'))
  try {
    return await use(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/**
 * Removes the upload directories that a killed daemon left below `parent`: all directories last written before `before`
 * (milliseconds since 1970).
 */
export async function removeUploads(parent: string, before: number): Promise<void> {
  // The parent directory does not exist before the first upload.
  const names = await readdir(parent).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  for (const name of names) {
    const directory = join(parent, name)
    // The directory may be missing, because its training has just removed it.
    const found = await stat(directory).catch(() => undefined)
    if (found && found.mtimeMs < before) await rm(directory, { recursive: true, force: true })
  }
}
