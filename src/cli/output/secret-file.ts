import { type FileHandle, lstat, open, realpath, rename, unlink } from 'node:fs/promises'
import { CliError, EXIT, isErrno, unwritable, usageError } from '../errors.ts'

/** Room that is taken on the disk before there is a secret; no secret is longer. */
const RESERVED_BYTES = 512

export type SecretFile = {
  /** Ends the file with the secret and one newline in it. Throws exit 1, and names where the secret is, when it cannot. */
  write(secret: string): Promise<void>
  /** Removes what was made; a file that `force` was to replace is as it was. */
  discard(): Promise<void>
}

/**
 * Opens a file for a secret that is shown once, with mode 0600 from its first byte on. To be called before the secret is
 * asked for, so that a missing folder or a full disk cannot lose it. Throws a usage error for a file that exists, unless
 * `force`; it is then replaced only when the secret is there. Nothing but a file, or what a link to one names, is replaced.
 */
export async function openSecretFile(path: string, { force }: { force: boolean }): Promise<SecretFile> {
  const replaced = force ? await findReplaceable(path) : undefined
  return replaced === undefined ? newFile(path) : replacement(replaced)
}

async function newFile(path: string): Promise<SecretFile> {
  const file = await create(path).catch((error: unknown) => {
    if (!isErrno(error) || error.code !== 'EEXIST') throw unwritable(path, error)
    throw usageError(`${path} exists already and is not overwritten`, ['Replace it:  --force'])
  })
  return {
    discard: () => remove(file, path),
    write: (secret) => end(file, secret).catch(failedOn(path)),
  }
}

/** What a folder answers that takes no new file from this user. */
const REFUSALS = new Set(['EACCES', 'EPERM', 'EROFS'])

/** The secret goes into a file beside the one that it replaces. */
async function replacement(path: string): Promise<SecretFile> {
  const draft = `${path}.${process.pid}.new`
  const file = await create(draft).catch((error: unknown) => {
    if (!isErrno(error) || !REFUSALS.has(error.code ?? '')) throw unwritable(draft, error)
    return undefined
  })
  // A folder that takes no new file may hold one that takes a new content.
  if (file === undefined) return inPlace(path)
  return {
    discard: () => remove(file, draft),
    async write(secret) {
      await end(file, secret).catch(failedOn(draft))
      try {
        await rename(draft, path)
      } catch {
        // A file that is mounted by itself cannot be replaced, only changed.
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
  const file = await openFile(path).catch(failedOn(path))
  return {
    async discard() {
      await file.chmod(mode & 0o777).catch(() => {})
      await file.close()
    },
    write: (secret) => end(file, secret).catch(failedOn(path)),
  }
}

const failedOn = (path: string) => (error: unknown) => {
  throw unwritable(path, error)
}

/** Where the file is that is to be replaced; undefined when there is nothing yet. */
async function findReplaceable(path: string): Promise<string | undefined> {
  const absent = (error: unknown) => {
    if (isErrno(error) && error.code === 'ENOENT') return undefined
    throw unwritable(path, error)
  }
  if ((await lstat(path).catch(absent)) === undefined) return undefined
  const target = await realpath(path).catch(absent)
  if (target === undefined) throw usageError(`${path} is a link to nothing`)
  if (!(await lstat(target)).isFile()) throw usageError(`${path} is not a file`)
  return target
}

/** A file of our own that takes a secret. */
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

/** One that is there, and is nobody else's to read from now on. */
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

/** Makes the bytes all that the file holds, in place. */
async function fill(file: FileHandle, bytes: Buffer): Promise<void> {
  let written = 0
  while (written < bytes.length) {
    written += (await file.write(bytes, written, bytes.length - written, written)).bytesWritten
  }
  await file.truncate(bytes.length)
  await file.sync()
}
