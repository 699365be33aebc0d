// The file format of a backup: a tar archive, compressed with gzip, and usually encrypted with age. Common programs can
// therefore read a backup without the gateway. The last entry contains the SHA-256 of all other entries.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { extract, pack } from 'tar-stream'
import { BackupError, messageOf } from './backup-error.ts'
import { AGE_MAGIC, type Decryption, decrypt, type Encryption, encrypt } from './encryption.ts'

/** The name of the last entry: `{"files": {NAME: SHA-256}}`. A truncated archive does not contain it. */
const SUMS = 'sums.json'
/** Low levels need a third of the time, and the result is only slightly larger. */
const GZIP_LEVEL = 3
const GZIP_MAGIC = Buffer.from([0x1f, 0x8b])
/** A larger text in the archive is damaged or hostile. */
const TEXT_BYTES = 16 * 1024 * 1024

/** Adds a file to an archive. `bytes` is its exact size. */
export type AddFile = (name: string, bytes: number, content: Iterable<Uint8Array> | Readable) => Promise<void>

/** Writes an archive to `out`, and ends `out`. `fill` adds the files. */
export async function writeArchive(
  out: Writable,
  encryption: Encryption,
  fill: (add: AddFile) => Promise<void>,
): Promise<void> {
  const archive = pack()
  const sums: Record<string, string> = {}
  const add: AddFile = async (name, size, content) => {
    const hash = createHash('sha256')
    const entry = archive.entry({ name, size, mode: 0o600 })
    const stored = new Promise<void>((resolve, reject) => entry.on('finish', resolve).on('error', reject))
    for await (const chunk of content) {
      hash.update(chunk)
      if (!entry.write(chunk)) await Promise.race([once(entry, 'drain'), stored])
    }
    entry.end(null)
    await stored
    sums[name] = hash.digest('hex')
  }
  const compressed = createGzip({ level: GZIP_LEVEL })
  const encrypted = await encrypt(compressed, encryption)
  const filling = async () => {
    try {
      await fill(add)
      await addText(add, SUMS, JSON.stringify({ files: { ...sums } }))
      archive.finalize()
    } catch (error) {
      archive.destroy(error as Error)
      throw error
    }
  }
  // The first error is the cause. The streams end with errors that follow from it.
  await Promise.all([filling(), pipeline(archive as AsyncIterable<Buffer>, compressed), pipeline(encrypted, out)])
}

/** Adds a text to an archive. */
export function addText(add: AddFile, name: string, text: string): Promise<void> {
  const bytes = Buffer.from(text)
  return add(name, bytes.length, [bytes])
}

/** One file of an archive. Its content must be read before the next file. */
export type ArchiveFile = { name: string; bytes: number; content: AsyncIterable<Buffer> }

/**
 * Passes each file of an archive to `take`, in order. What `take` has read is trustworthy only after this function has
 * returned: it compares all sums.
 * @throws BackupError if the archive is truncated, damaged, or encrypted for someone else
 */
export async function readArchive(
  source: Readable,
  decryption: Decryption,
  take: (file: ArchiveFile) => Promise<void>,
): Promise<void> {
  const compressed = await openSource(source, decryption)
  const archive = extract()
  const gunzip = createGunzip()
  const reading = pipeline(compressed, gunzip, async (chunks: AsyncIterable<Buffer>) => {
    try {
      for await (const chunk of chunks) {
        if (archive.destroyed) return
        if (!archive.write(chunk)) await drained(archive)
      }
      archive.end(null)
    } catch (error) {
      archive.destroy(error as Error)
      throw error
    }
  })
  // The error is reported below.
  reading.catch((error) => archive.destroy(error))
  try {
    await readFiles(archive as AsyncIterable<TarEntry>, take)
    await reading
  } catch (error) {
    source.destroy()
    if (error instanceof BackupError) throw error
    const isOfArchive = await reading.then(
      () => false,
      (cause) => cause === error,
    )
    if (!isOfArchive && !isFormatError(error)) throw error
    throw new BackupError(`The backup is damaged or truncated: ${messageOf(error)}.`, { cause: error })
  }
}

type TarEntry = AsyncIterable<Buffer> & { header: { name: string; size?: number }; resume(): void }

/** The errors of tar-stream have no code. */
const isFormatError = (error: unknown): boolean =>
  error instanceof Error && /tar header|end of data|premature close|writable stream closed/i.test(error.message)

const drained = (archive: NodeJS.EventEmitter & { destroyed: boolean }): Promise<void> =>
  new Promise((resolve) => {
    if (archive.destroyed) return resolve()
    archive.once('drain', resolve)
    archive.once('close', resolve)
  })

async function readFiles(entries: AsyncIterable<TarEntry>, take: (file: ArchiveFile) => Promise<void>): Promise<void> {
  const found = new Map<string, string>()
  let sums: Record<string, string> | undefined
  for await (const entry of entries) {
    const { name, size = 0 } = entry.header
    if (sums !== undefined) throw new BackupError(`The backup is damaged: ${SUMS} is not its last file.`)
    if (name === SUMS) {
      sums = (JSON.parse(await readText({ name, bytes: size, content: entry })) as { files: Record<string, string> })
        .files
      continue
    }
    const hash = createHash('sha256')
    await take({ name, bytes: size, content: hashed(entry, hash) })
    found.set(name, hash.digest('hex'))
  }
  if (sums === undefined) throw new BackupError('The backup is truncated: its last file is missing.')
  const names = new Set([...found.keys(), ...Object.keys(sums)])
  for (const name of names)
    if (found.get(name) !== sums[name])
      throw new BackupError(`The backup is damaged: the content of ${name} does not match its sum.`)
}

async function* hashed(content: AsyncIterable<Buffer>, hash: { update(chunk: Buffer): unknown }) {
  for await (const chunk of content) {
    hash.update(chunk)
    yield chunk
  }
}

/** Returns the content of a small file. */
export async function readText({ name, bytes, content }: ArchiveFile): Promise<string> {
  if (bytes > TEXT_BYTES) throw new BackupError(`The backup is damaged: ${name} is too large.`)
  const chunks: Buffer[] = []
  for await (const chunk of content) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

/** Returns the compressed bytes. Decrypts them if necessary. */
async function openSource(source: Readable, decryption: Decryption): Promise<Readable> {
  const chunks = source[Symbol.asyncIterator]()
  let head = Buffer.alloc(0)
  while (head.length < AGE_MAGIC.length) {
    const { done, value } = await chunks.next()
    if (done) break
    head = Buffer.concat([head, value as Buffer])
  }
  const whole = Readable.from(
    (async function* () {
      yield head
      for (;;) {
        const { done, value } = await chunks.next()
        if (done) return
        yield value as Buffer
      }
    })(),
    { objectMode: false },
  )
  if (head.subarray(0, AGE_MAGIC.length).toString('latin1') === AGE_MAGIC) return decrypt(whole, decryption)
  if (head.subarray(0, GZIP_MAGIC.length).equals(GZIP_MAGIC)) return whole
  throw new BackupError('This is not a backup of aigw: it is neither encrypted with age nor compressed with gzip.')
}
