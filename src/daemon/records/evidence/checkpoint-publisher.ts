import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { type Dispatcher, request } from 'undici'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import type { FileMemory } from './file-losses.ts'

/** The timeout of a POST request that sends a checkpoint. */
const EVIDENCE_POST_MS = 5_000

/** Publishes checkpoints outside of the store, so that an old or rewritten database can be detected. */
export type CheckpointPublisher = {
  /** Logs a checkpoint, writes it to the file and starts to POST it. Never rejects: failures are logged. */
  publish(checkpoint: EvidenceCheckpointRow): Promise<void>
  /** Waits until the POST requests in progress have ended. */
  close(): Promise<void>
}

export type CheckpointPublisherOptions = {
  /** Notes are appended to this file. */
  file: string | undefined
  /** Each note is sent to this URL by POST. */
  url: string | undefined
  log: Pick<Log, 'info' | 'error'>
  /** Whether this daemon has written the file before. By default, the file is created if it does not exist. */
  fileMemory?: FileMemory | undefined
  /** Opens the connections for the POST requests. */
  dispatcher?: Dispatcher
}

/** The maximum number of chains with a pending note. */
const NOTES_WAITING = 1_000

export function createCheckpointPublisher({
  file,
  url,
  log,
  fileMemory,
  dispatcher,
}: CheckpointPublisherOptions): CheckpointPublisher {
  /** The last pending note of each chain. It covers the chain's earlier notes. */
  const waiting = new Map<string, string>()
  let posting: Promise<void> | undefined
  let hasNew = false

  /**
   * Sends each pending note once, and repeats this as long as new notes arrive. A failed note is retried together with
   * the next checkpoint.
   */
  async function postAll(target: string): Promise<void> {
    do {
      hasNew = false
      for (const [origin, note] of [...waiting]) {
        try {
          await post(target, note, dispatcher)
          if (waiting.get(origin) === note) waiting.delete(origin)
        } catch (error) {
          log.error({ error, origin, waiting: waiting.size }, 'a checkpoint could not be posted')
          // If the receiver rejects a note, continue, because it may accept the remaining notes. If the receiver does
          // not respond, stop, because each further note would take EVIDENCE_POST_MS.
          if (!(error instanceof RefusedNoteError)) return putLast(origin)
        }
      }
    } while (hasNew)
  }

  /**
   * Moves a note to the end. The next round then starts with the remaining notes, because the receiver may accept them.
   */
  function putLast(origin: string): void {
    const note = waiting.get(origin)
    waiting.delete(origin)
    if (note !== undefined) waiting.set(origin, note)
  }

  return {
    async publish({ note }) {
      log.info({ checkpoint: note }, 'published a checkpoint')
      if (file !== undefined) {
        await writeNote(file, note, fileMemory).catch((error) =>
          log.error({ error, file }, 'a checkpoint could not be written to its file'),
        )
      }
      if (url === undefined) return
      const origin = note.slice(0, note.indexOf('\n'))
      if (waiting.has(origin) || waiting.size < NOTES_WAITING) waiting.set(origin, note)
      hasNew = true
      posting ??= postAll(url).finally(() => {
        posting = undefined
      })
    },
    async close() {
      await posting
    },
  }
}

/** Thrown if the file is empty, although this daemon has written it. */
class EmptyFileError extends Error {
  override name = 'EmptyFileError'
}

class RefusedNoteError extends Error {
  override name = 'RefusedNoteError'
}

/** @throws RefusedNoteError if the status is not 2xx, and network errors */
async function post(url: string, note: string, dispatcher: Dispatcher | undefined): Promise<void> {
  const { statusCode, body } = await request(url, {
    method: 'POST',
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    body: note,
    signal: AbortSignal.timeout(EVIDENCE_POST_MS),
    ...(dispatcher && { dispatcher }),
  })
  await body.dump()
  if (statusCode < 200 || statusCode > 299)
    throw new RefusedNoteError(`the receiver responded with status ${statusCode}`)
}

/**
 * Appends a note. A file that this daemon has written before is not created again: a new file would hide that the
 * checkpoints in the former file are lost. @throws errors of the file and the store
 */
async function writeNote(path: string, note: string, memory: FileMemory | undefined): Promise<void> {
  const mustExist = (await memory?.mustExist()) ?? false
  try {
    await appendNote(path, note, mustExist)
  } catch (error) {
    const isAbsent = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    await (mustExist && (isAbsent || error instanceof EmptyFileError) ? memory?.missing() : memory?.failed(error))
    throw error
  }
  if (!mustExist) await memory?.written()
}

/** Appends a note and an empty line. The note is durable when the promise resolves. */
async function appendNote(path: string, note: string, mustExist: boolean): Promise<void> {
  const file = await open(path, mustExist ? constants.O_RDWR | constants.O_APPEND : 'a+', 0o600)
  try {
    if (mustExist && (await file.stat()).size === 0) throw new EmptyFileError('the checkpoint file is empty')
    await file.writeFile(`${await missingEnd(file)}${note}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}

/**
 * Returns the newlines to append if a crash left a partial note at the end of the file. Without these newlines, the
 * next note would continue the partial note.
 */
async function missingEnd(file: FileHandle): Promise<string> {
  const { size } = await file.stat()
  if (size === 0) return ''
  const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, Math.max(0, size - 2))
  const end = buffer.toString('latin1', 0, bytesRead)
  if (end === '\n\n') return ''
  return end.endsWith('\n') ? '\n' : '\n\n'
}
