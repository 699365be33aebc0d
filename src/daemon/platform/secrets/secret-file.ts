import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Writes one line to a file that only this user may read, and creates its directory. The write is atomic, and durable
 * when the function returns. If the process is killed before the function returns, the file may be unchanged or
 * missing.
 */
export async function writeSecretFile(path: string, line: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const unfinished = `${path}.new`
  await rm(unfinished, { force: true })
  const file = await open(unfinished, 'wx', 0o600)
  try {
    await file.writeFile(`${line}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(unfinished, path)
  await syncDirectory(dirname(path))
}

/** A new file name is durable only after its directory is synced. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
