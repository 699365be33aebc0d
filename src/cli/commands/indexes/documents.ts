import { lstat, open, readdir, stat } from 'node:fs/promises'
import { basename, extname, join, posix } from 'node:path'
import { TRAIN_FILE_BYTES, TRAIN_FILES } from '../../../shared/spec-limits.ts'
import { isErrno, usageError } from '../../errors.ts'

/** One document to be sent; `name` is what sources and search results will show. */
export type Document = { name: string; type: string; size: number; read(): AsyncIterable<Uint8Array> }

export type Skipped = { path: string; reason: string }

const TYPES: Record<string, string> = { '.txt': 'text/plain', '.md': 'text/markdown', '.markdown': 'text/markdown' }
/** Small enough to be sent within one request's time limit on a slow line. A larger file goes alone. */
const BATCH_BYTES = 8_388_608

export type Collected = { documents: Document[]; skipped: Skipped[] }

/**
 * The text and Markdown files that the arguments name, folders in full. Hidden entries and links inside folders are
 * left out. Throws a usage error for an argument that does not exist.
 */
export async function collectDocuments(paths: string[]): Promise<Collected> {
  const collected: Collected = { documents: [], skipped: [] }
  for (const path of paths) {
    const found = await stat(path).catch((error: unknown) => {
      const reason = isErrno(error) && error.code === 'ENOENT' ? 'there is no such file' : String(error)
      throw usageError(`cannot add ${path}: ${reason}`)
    })
    const name = basename(path === '.' || path === '..' ? join(process.cwd(), path) : path)
    if (found.isDirectory()) await collectFolder(path, name, collected)
    else collectFile(path, name, found, collected)
  }
  return collected
}

async function collectFolder(folder: string, prefix: string, collected: Collected): Promise<void> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw usageError(`cannot read the folder ${folder} (${error instanceof Error ? error.message : error})`)
  })
  for (const entry of names.sort()) {
    const path = join(folder, entry)
    // Documents of one folder may share a file name, so the way to them is a part of their name.
    const name = posix.join(prefix, entry)
    const found = await lstat(path)
    if (entry.startsWith('.')) collected.skipped.push({ path, reason: 'hidden' })
    else if (found.isSymbolicLink()) collected.skipped.push({ path, reason: 'a symbolic link' })
    else if (found.isDirectory()) await collectFolder(path, name, collected)
    else collectFile(path, name, found, collected)
  }
}

function collectFile(
  path: string,
  name: string,
  found: { size: number; isFile(): boolean },
  collected: Collected,
): void {
  const type = TYPES[extname(path).toLowerCase()]
  const { size } = found
  const reason = reasonToSkip(type, found)
  if (reason !== undefined) collected.skipped.push({ path, reason })
  else if (type !== undefined) collected.documents.push({ name, type, size, read: () => readExactly(path, size) })
}

function reasonToSkip(type: string | undefined, file: { size: number; isFile(): boolean }): string | undefined {
  if (!file.isFile()) return 'not a regular file'
  if (type === undefined) return 'not a text or Markdown file'
  if (file.size === 0) return 'empty'
  return file.size > TRAIN_FILE_BYTES ? `larger than ${TRAIN_FILE_BYTES / 1024 / 1024} MB` : undefined
}

/** The announced number of bytes; a file that shrinks meanwhile is an error, not a shorter document. */
async function* readExactly(path: string, size: number): AsyncGenerator<Uint8Array> {
  const file = await open(path)
  try {
    let left = size
    for await (const chunk of file.createReadStream({ end: size - 1, autoClose: false })) {
      const bytes: Buffer = chunk
      left -= bytes.length
      yield bytes
    }
    if (left > 0) throw usageError(`${path} became shorter while it was sent`)
  } finally {
    await file.close()
  }
}

/** Documents in groups that one request may carry (spec: train, at most 20 files a call). */
export function toBatches(documents: Document[]): Document[][] {
  const batches: Document[][] = []
  let bytes = 0
  for (const document of documents) {
    const batch = batches.at(-1)
    if (batch !== undefined && batch.length < TRAIN_FILES && bytes + document.size <= BATCH_BYTES) {
      batch.push(document)
      bytes += document.size
    } else {
      batches.push([document])
      bytes = document.size
    }
  }
  return batches
}
