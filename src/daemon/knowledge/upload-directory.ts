import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { UPLOAD_TIMEOUT_MS } from '../../shared/spec-limits.ts'
import type { Clock } from '../../shared/time.ts'

/** No upload and its training take longer than this together, so what is older was left behind by a crash. */
const ABANDONED_MS = 2 * UPLOAD_TIMEOUT_MS

/**
 * Runs `use` with an empty directory below `parent`, which is gone afterwards, as is what a killed daemon left there. Below the
 * data directory, because what is temporary is kept in memory on many machines, and an upload may have a gigabyte.
 */
export async function withUploadDirectory<T>(
  parent: string,
  clock: Clock,
  use: (directory: string) => Promise<T>,
): Promise<T> {
  await mkdir(parent, { recursive: true, mode: 0o700 })
  await removeAbandonedUploads(parent, clock)
  const directory = await mkdtemp(join(parent, 'upload-'))
  try {
    return await use(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function removeAbandonedUploads(parent: string, clock: Clock): Promise<void> {
  for (const name of await readdir(parent)) {
    const directory = join(parent, name)
    // Another request may have removed it meanwhile.
    const found = await stat(directory).catch(() => undefined)
    if (found && found.mtimeMs < clock.now() - ABANDONED_MS) await rm(directory, { recursive: true, force: true })
  }
}
