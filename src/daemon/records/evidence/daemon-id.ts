import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeSecretFile } from '../../platform/secrets/secret-file.ts'

/**
 * The name of this daemon among those that share a store: 12 hex characters, made once for a data directory and kept in its
 * `daemon.id`. Another one is made for a file that holds none.
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
