import { type FileHandle, open } from 'node:fs/promises'
import { request } from 'undici'
import { EVIDENCE_POST_MS } from '../../../shared/spec-limits.ts'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'

/** Where checkpoints go beside the store, so that an old database, or one that was written anew, does not go unnoticed. */
export type CheckpointPublisher = {
  /** Logs a checkpoint and writes it to the file; it is posted meanwhile. Never rejects: what fails is logged. */
  publish(checkpoint: EvidenceCheckpointRow): Promise<void>
  /** Waits for what is being posted. */
  close(): Promise<void>
}

export type CheckpointPublisherOptions = {
  /** Appended to, one note after another. */
  file: string | undefined
  /** Each note is posted to it. */
  url: string | undefined
  log: Pick<Log, 'info' | 'error'>
}

/** Chains whose last note is kept to be posted. */
const NOTES_WAITING = 1_000

export function createCheckpointPublisher({ file, url, log }: CheckpointPublisherOptions): CheckpointPublisher {
  /** By chain, the last note that was not posted yet: it covers those before it. */
  const waiting = new Map<string, string>()
  let posting: Promise<void> | undefined
  let hasNew = false

  /** Each note once, and again while there are new ones; what fails is tried again with the next checkpoint. */
  async function postAll(target: string): Promise<void> {
    do {
      hasNew = false
      for (const [origin, note] of [...waiting]) {
        try {
          await post(target, note)
          if (waiting.get(origin) === note) waiting.delete(origin)
        } catch (error) {
          log.error({ error, origin, waiting: waiting.size }, 'a checkpoint could not be posted')
          // A place that answers may take the others; one that does not would cost EVIDENCE_POST_MS for each.
          if (!(error instanceof RefusedNoteError)) return putLast(origin)
        }
      }
    } while (hasNew)
  }

  /** So that the next round begins with others, if this one is what the place does not answer to. */
  function putLast(origin: string): void {
    const note = waiting.get(origin)
    waiting.delete(origin)
    if (note !== undefined) waiting.set(origin, note)
  }

  return {
    async publish({ note }) {
      log.info({ checkpoint: note }, 'checkpoint of a log')
      if (file !== undefined) {
        await appendNote(file, note).catch((error) =>
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

class RefusedNoteError extends Error {
  override name = 'RefusedNoteError'
}

/** @throws RefusedNoteError when it is answered with anything but success, and what the network throws */
async function post(url: string, note: string): Promise<void> {
  const { statusCode, body } = await request(url, {
    method: 'POST',
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    body: note,
    signal: AbortSignal.timeout(EVIDENCE_POST_MS),
  })
  await body.dump()
  if (statusCode < 200 || statusCode > 299) throw new RefusedNoteError(`it was answered with ${statusCode}`)
}

/** On the disk when this returns. An empty line ends each note. */
async function appendNote(path: string, note: string): Promise<void> {
  const file = await open(path, 'a+', 0o600)
  try {
    await file.writeFile(`${await missingEnd(file)}${note}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** What the end of a file lacks of an empty line, when a crash has cut its last note: else that would begin the next. */
async function missingEnd(file: FileHandle): Promise<string> {
  const { size } = await file.stat()
  if (size === 0) return ''
  const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, Math.max(0, size - 2))
  const end = buffer.toString('latin1', 0, bytesRead)
  if (end === '\n\n') return ''
  return end.endsWith('\n') ? '\n' : '\n\n'
}
