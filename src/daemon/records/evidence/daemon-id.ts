import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeSecretFile } from '../../platform/secrets/secret-file.ts'

/**
 * Returns the id that distinguishes this daemon from other daemons on the same store. It has 12 hex characters and is
 * stored in `daemon.id` in the data directory. The id is created at the first start, and replaced if the file contains
 * no valid id.
 */
export async function openDaemonId(dataDir: string): Promise<string> {
  const path = join(dataDir, 'daemon.id')
  const found = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  const known = found.trim()
  if (/^[0-9a-f]{12}$/.test(known)) return known
  const id = randomBytes(6).toString('hex')
  await writeSecretFile(path, id)
  return id
}
