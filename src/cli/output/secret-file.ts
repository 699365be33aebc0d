/** Writes a secret to a file. The gateway returns each secret only once. */
import { type FileHandle, lstat, open, realpath, rename, unlink } from 'node:fs/promises'
import { CliError, EXIT, failedToWrite, isErrno, unwritable, usageError } from '../errors.ts'

/** The disk space to reserve before the secret is requested. Longer than any secret. */
const RESERVED_BYTES = 512

export type SecretFile = {
  /**
   * Writes the secret and a newline. If that fails, throws an error with exit code 1 that reports where the secret is.
   */
  write(secret: string): Promise<void>
  /** Removes the new file. If `force` was set, the existing file stays unchanged. */
  discard(): Promise<void>
}

/**
 * Opens a file with mode 0600. The caller opens the file before it requests the secret, so a missing folder or a full
 * disk cannot lose the secret. Throws a usage error if the file exists and `force` is not set. `force` replaces only
 * regular files (or a regular file behind a link), and only after the secret has arrived.
 */
export async function openSecretFile(path: string, { force }: { force: boolean }): Promise<SecretFile> {
  const replaced = force ? await findReplaceable(path) : undefined
  return replaced === undefined ? newFile(path) : replacement(replaced)
}

async function newFile(path: string): Promise<SecretFile> {
  const file = await create(path).catch((error: unknown) => {
    if (!isErrno(error) || error.code !== 'EEXIST') throw unwritable(path, error)
    throw usageError(`${path} already exists and is not overwritten`, ['Replace it:  --force'])
  })
  return {
    discard: () => remove(file, path),
    write: (secret) => end(file, secret).catch(failedToWrite(path)),
  }
}

/** The error codes of a file creation that fails because this user is not allowed to write to the folder. */
const REFUSALS = new Set(['EACCES', 'EPERM', 'EROFS'])

/** Writes a new file in the same folder and then replaces the old file with it. */
async function replacement(path: string): Promise<SecretFile> {
  const draft = `${path}.${process.pid}.new`
  const file = await create(draft).catch((error: unknown) => {
    if (!isErrno(error) || !REFUSALS.has(error.code ?? '')) throw unwritable(draft, error)
    return undefined
  })
  // In a read-only folder, the existing file may still be writable.
  if (file === undefined) return inPlace(path)
  return {
    discard: () => remove(file, draft),
    async write(secret) {
      await end(file, secret).catch(failedToWrite(draft))
      try {
        await rename(draft, path)
      } catch {
        // A file that is a mount point cannot be replaced, so its content is changed in place.
        try {
          await end(await openFile(path), secret)
        } catch (error) {
          const { message } = unwritable(path, error)
          throw new CliError(EXIT.error, message, {
            code: 'NOT_WRITTEN',
            hints: [`The secret is in:  ${draft}`],
            cause: error,
          })
        }
        await unlink(draft).catch(() => {})
      }
    },
  }
}

async function inPlace(path: string): Promise<SecretFile> {
  const { mode } = await lstat(path)
  const file = await openFile(path).catch(failedToWrite(path))
  return {
    async discard() {
      await file.chmod(mode & 0o777).catch(() => {})
      await file.close()
    },
    write: (secret) => end(file, secret).catch(failedToWrite(path)),
  }
}

/** Returns the real path of the file to replace, or undefined if the file does not exist. */
async function findReplaceable(path: string): Promise<string | undefined> {
  const absent = (error: unknown) => {
    if (isErrno(error) && error.code === 'ENOENT') return undefined
    throw unwritable(path, error)
  }
  if ((await lstat(path).catch(absent)) === undefined) return undefined
  const target = await realpath(path).catch(absent)
  if (target === undefined) throw usageError(`${path} is a broken link`)
  if (!(await lstat(target)).isFile()) throw usageError(`${path} is not a file`)
  return target
}

/** Creates a new file and reserves its space. */
async function create(path: string): Promise<FileHandle> {
  const file = await open(path, 'wx', 0o600)
  try {
    await fill(file, Buffer.alloc(RESERVED_BYTES, '\n'))
    return file
  } catch (error) {
    await remove(file, path)
    throw error
  }
}

/** Opens an existing file and sets its mode so that only its owner can read it. */
async function openFile(path: string): Promise<FileHandle> {
  const file = await open(path, 'r+')
  try {
    if (!(await file.stat()).isFile()) throw new Error('not a file')
    await file.chmod(0o600)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

async function remove(file: FileHandle, path: string): Promise<void> {
  await file.close().catch(() => {})
  await unlink(path).catch(() => {})
}

async function end(file: FileHandle, secret: string): Promise<void> {
  await fill(file, Buffer.from(`${secret}\n`))
  await file.close()
}

/** Replaces the content of the file in place. */
async function fill(file: FileHandle, bytes: Buffer): Promise<void> {
  let written = 0
  while (written < bytes.length) {
    written += (await file.write(bytes, written, bytes.length - written, written)).bytesWritten
  }
  await file.truncate(bytes.length)
  await file.sync()
}
