import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { API_KEY_PATTERN } from '../../../shared/ids.ts'
import { writeSecretFile } from '../../platform/secrets/secret-file.ts'

/** Path of the generated operator key. */
export const adminKeyFile = (dataDir: string): string => join(dataDir, 'admin.key')

/**
 * Returns the key in `<dataDir>/admin.key`, or undefined if the file does not exist. @throws Error if the file does not
 * contain a valid key.
 */
export async function readKeyFile(dataDir: string): Promise<string | undefined> {
  const file = adminKeyFile(dataDir)
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new Error(`Cannot read the operator key file ${file}: ${error.message}`, { cause: error })
  })
  const key = text?.trim()
  if (key !== undefined && !API_KEY_PATTERN.test(key)) {
    throw new Error(
      `${file} does not contain an API key (sk- and 64 characters 0-9a-f). Restore the file, or move it away.`,
    )
  }
  return key
}

/**
 * Writes `<dataDir>/admin.key`, readable only by the current operating-system user. The file is durable when the
 * promise resolves.
 */
export const writeKeyFile = (dataDir: string, key: string): Promise<void> => writeSecretFile(adminKeyFile(dataDir), key)

export async function removeKeyFile(dataDir: string): Promise<void> {
  await rm(adminKeyFile(dataDir), { force: true })
}
