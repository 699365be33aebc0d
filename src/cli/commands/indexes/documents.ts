import { lstat, open, readdir, stat } from 'node:fs/promises'
import { extname, join, relative, resolve, sep } from 'node:path'
import { TRAIN_FILE_BYTES, TRAIN_FILES } from '../../../shared/spec-limits.ts'
import { CliError, unreadable, usageError } from '../../errors.ts'

/** One document to be sent; `name` is what sources and search results will show, `path` says which file it is. */
export type Document = { name: string; path: string; type: string; size: number; read(): AsyncIterable<Uint8Array> }

export type Skipped = { path: string; reason: string }

// The gateway reads the same endings.
export const TYPES: Record<string, string> = {
  '.txt': 'text/plain',
  '.text': 'text/plain',
  '.log': 'text/plain',
  '.md': 'text/markdown',
  '.markdown': 'text/markdown',
  '.mdown': 'text/markdown',
  '.html': 'text/html',
  '.htm': 'text/html',
  '.xhtml': 'application/xhtml+xml',
  '.csv': 'text/csv',
  '.tsv': 'text/tab-separated-values',
  '.json': 'application/json',
  '.pdf': 'application/pdf',
  '.docx': 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  '.xlsx': 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  '.xlsm': 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  '.xls': 'application/vnd.ms-excel',
}
/** What people have that the gateway cannot read, and what they can make of it. */
const CONVERT: Record<string, string> = {
  '.doc': 'save it as DOCX or PDF',
  '.rtf': 'save it as DOCX or PDF',
  '.odt': 'save it as DOCX or PDF',
  '.ods': 'save it as XLSX or CSV',
  '.xlsb': 'save it as XLSX or CSV',
  '.ppt': 'export it as PDF',
  '.pptx': 'export it as PDF',
  '.odp': 'export it as PDF',
}
/** What to tell people who named something else. */
export const TAKEN = `These are taken:  ${Object.keys(TYPES).join(' ')}`
/** Small enough to be sent within one request's time limit on a slow line. A larger file goes alone. */
const BATCH_BYTES = 8_388_608
const REFUSED_SHOWN = 10

type Collected = { documents: Document[]; skipped: Skipped[] }
type Found = { size: number; isFile(): boolean }

/**
 * The files that the arguments name, folders in full. Inside folders, what cannot be taken is left out,
 * and so are hidden entries and links. Throws a usage error for an argument that cannot be taken itself.
 */
export async function collectDocuments(paths: string[]): Promise<Collected> {
  const collected: Collected = { documents: [], skipped: [] }
  const refused: string[] = []
  for (const path of paths) {
    const found = await stat(path).catch((error: unknown) => {
      throw unreadable(path, error)
    })
    if (found.isDirectory()) await collectFolder(path, collected)
    else {
      const taken = toDocument(path, found)
      if (typeof taken === 'string') refused.push(`${path}: ${taken}`)
      else collected.documents.push(taken)
    }
  }
  if (refused.length > 0) {
    throw usageError(`cannot add ${refused.length} of the files that were named`, [
      ...refused.slice(0, REFUSED_SHOWN),
      TAKEN,
    ])
  }
  return collected
}

async function collectFolder(folder: string, collected: Collected): Promise<void> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw unreadable(folder, error)
  })
  for (const entry of names.sort()) {
    const path = join(folder, entry)
    const found = await lstat(path).catch((error: unknown) => {
      throw unreadable(path, error)
    })
    const skip = (reason: string) => void collected.skipped.push({ path, reason })
    if (entry.startsWith('.')) skip('hidden')
    else if (found.isSymbolicLink()) skip('a symbolic link')
    else if (found.isDirectory()) await collectFolder(path, collected)
    else {
      const taken = toDocument(path, found)
      if (typeof taken === 'string') skip(taken)
      else collected.documents.push(taken)
    }
  }
}

/** The document in a file, or the reason why it is none. */
function toDocument(path: string, file: Found): Document | string {
  const type = typeOf(path)
  const { size } = file
  if (!file.isFile()) return 'not a regular file'
  if (type === undefined) return CONVERT[extname(path).toLowerCase()] ?? 'not a kind of file that can be read'
  if (size === 0) return 'empty'
  if (size > TRAIN_FILE_BYTES) return `larger than ${TRAIN_FILE_BYTES / 1024 / 1024} MB`
  return { name: toDocumentName(path), path: resolve(path), type, size, read: () => readExactly(path, size) }
}

/** The MIME type that the ending of a file name stands for. */
export const typeOf = (name: string): string | undefined => TYPES[extname(name).toLowerCase()]

/**
 * The way to a file from the current folder, however it was written, so that files of one name in different folders stay
 * apart and adding a file again replaces it. What leads out of the folder is left out.
 */
const toDocumentName = (path: string): string =>
  relative('.', path)
    .split(sep)
    .filter((part) => part !== '..')
    .join('/')
    .normalize('NFC')

/** Each file once. Throws a usage error when two documents would have one name: one would replace the other. */
export function distinctDocuments(documents: Document[]): Document[] {
  const byName = new Map<string, Document>()
  for (const document of documents) {
    const { name, path } = document
    const other = byName.get(name)
    if (other !== undefined && other.path !== path) {
      throw usageError(`two documents would be called '${name}'`, [other.path, path, 'Add them from another folder.'])
    }
    byName.set(name, document)
  }
  return [...byName.values()]
}

/** The announced number of bytes; a file that shrinks meanwhile is an error, not a shorter document. */
async function* readExactly(path: string, size: number): AsyncGenerator<Uint8Array> {
  const file = await open(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  try {
    let left = size
    for await (const chunk of file.createReadStream({ end: size - 1, autoClose: false })) {
      const bytes: Buffer = chunk
      left -= bytes.length
      yield bytes
    }
    if (left > 0) throw usageError(`${path} became shorter while it was sent`)
  } catch (error) {
    throw error instanceof CliError ? error : unreadable(path, error)
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
