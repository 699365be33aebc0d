import { readFile } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { DOCUMENT_PASSAGES } from '../../../shared/spec-limits.ts'
import type { Passage } from '../chunking.ts'
import { extract } from './extract.ts'
import type { FileToRead, WorkerMessage } from './messages.ts'
import { cut } from './passages.ts'
import { UnreadableDocument } from './unreadable.ts'

// A thread that reads files: one at a time, each answered with its passages. It may be ended at any moment.

/** Few enough that the daemon takes them in between two requests. */
const PASSAGES_PER_MESSAGE = 200

// On Linux this is the priority of the calling thread, elsewhere that of the whole process. Files can wait, chats cannot.
if (process.platform === 'linux') setPriority(10)

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread only')
const send = (message: WorkerMessage) => port.postMessage(message)

port.on('message', async (file: FileToRead) => {
  try {
    send({ kind: 'done', title: await read(file) })
  } catch (error) {
    if (!(error instanceof UnreadableDocument)) throw error
    const { cause } = error
    send({ kind: 'unreadable', message: error.message, cause: cause === undefined ? undefined : String(cause) })
  }
})

/** Sends the passages of a file and returns its title. @throws UnreadableDocument */
async function read({ name, type, content }: FileToRead): Promise<string> {
  const bytes =
    typeof content === 'string'
      ? await readFile(content)
      : Buffer.from(content.buffer, content.byteOffset, content.length)
  const { title, passages } = cut(await extract({ name, type, bytes }))
  let count = 0
  let batch: Passage[] = []
  for (const passage of passages) {
    if (count++ === DOCUMENT_PASSAGES) {
      throw new UnreadableDocument(`The file has more than ${DOCUMENT_PASSAGES} passages; split it.`)
    }
    batch.push(passage)
    if (batch.length === PASSAGES_PER_MESSAGE) {
      send({ kind: 'passages', passages: batch })
      batch = []
    }
  }
  send({ kind: 'passages', passages: batch })
  return title
}
