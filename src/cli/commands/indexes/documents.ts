/** Collects the documents in files and folders. */
import { lstat, open, readdir, stat } from 'node:fs/promises'
import { extname, join, relative, resolve, sep } from 'node:path'
import { TRAIN_FILE_BYTES, TRAIN_FILES } from '../../../shared/spec-limits.ts'
import { CliError, failedToRead, unreadable, usageError } from '../../errors.ts'

/** A document to send. Sources and search results show `name`. `path` is a file or a web address. */
export type Document = { name: string; path: string; type: string; size: number; read(): AsyncIterable<Uint8Array> }

export type Skipped = { path: string; reason: string }

/** The file endings that the gateway accepts. */
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
/** Unsupported formats, and how to convert them. */
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
/** The hint for unsupported files. */
export const ACCEPTED = `Supported files:  ${Object.keys(TYPES).join(' ')}`
/**
 * Maximum size of a batch. Uploading a batch of this size finishes within the request timeout even on a slow
 * connection. A larger file is sent alone.
 */
const BATCH_BYTES = 8_388_608
const REFUSED_SHOWN = 10

type Collected = { documents: Document[]; skipped: Skipped[] }
type Found = { size: number; isFile(): boolean }

/**
 * Finds the documents at the paths. Folders are read recursively. Inside folders, unsupported files, hidden entries and
 * links are skipped. If the command line names an unsupported file, throws a usage error.
 */
export async function collectDocuments(paths: string[]): Promise<Collected> {
  const collected: Collected = { documents: [], skipped: [] }
  const refused: string[] = []
  for (const path of paths) {
    const found = await stat(path).catch(failedToRead(path))
    if (found.isDirectory()) await collectFolder(path, collected)
    else {
      const taken = toDocument(path, found)
      if (typeof taken === 'string') refused.push(`${path}: ${taken}`)
      else collected.documents.push(taken)
    }
  }
  if (refused.length > 0) {
    throw usageError(`cannot add ${refused.length} of the named files`, [...refused.slice(0, REFUSED_SHOWN), ACCEPTED])
  }
  return collected
}

async function collectFolder(folder: string, collected: Collected): Promise<void> {
  const names = await readdir(folder).catch(failedToRead(folder))
  for (const entry of names.sort()) {
    const path = join(folder, entry)
    const found = await lstat(path).catch(failedToRead(path))
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

/** Returns the document in a file, or the reason why the file is unsupported. */
function toDocument(path: string, file: Found): Document | string {
  const type = typeOf(path)
  const { size } = file
  if (!file.isFile()) return 'not a regular file'
  if (type === undefined) return CONVERT[extname(path).toLowerCase()] ?? 'unsupported file type'
  if (size === 0) return 'empty'
  if (size > TRAIN_FILE_BYTES) return `larger than ${TRAIN_FILE_BYTES / 1024 / 1024} MB`
  return { name: toDocumentName(path), path: resolve(path), type, size, read: () => readExactly(path, size) }
}

/** Returns the MIME type for the ending of a file name. */
export const typeOf = (name: string): string | undefined => TYPES[extname(name).toLowerCase()]

/**
 * Returns the path relative to the current folder, without `..`. Files with the same name in different folders stay
 * distinct. Adding the same file again replaces its document.
 */
const toDocumentName = (path: string): string =>
  relative('.', path)
    .split(sep)
    .filter((part) => part !== '..')
    .join('/')
    .normalize('NFC')

/**
 * Removes duplicates. If two documents have the same name, throws a usage error, because one would replace the other.
 */
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

/** Reads exactly `size` bytes. Throws a usage error if the file has shrunk. */
async function* readExactly(path: string, size: number): AsyncGenerator<Uint8Array> {
  const file = await open(path).catch(failedToRead(path))
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

/** Groups the documents into batches. Each batch is sent in one request. */
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
