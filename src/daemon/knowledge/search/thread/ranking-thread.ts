// The thread that ranks. It has no connection to the store and asks the daemon's main thread for what it needs. It may
// be terminated at any moment.
import { parentPort } from 'node:worker_threads'
import { decodeRuns } from '../../indexes/segment.ts'
import { createSegmentCache } from '../../indexes/segment-cache.ts'
import { decodeMatches } from '../match-row.ts'
import { queryOf } from '../query.ts'
import { type IndexReader, type Ranked, rankIndex } from '../rank.ts'
import { type FromThread, type Packed, type RankTask, type Read, type ToThread, unpack } from './messages.ts'

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread only')
const send = (message: FromThread) => port.postMessage(message)

const cache = createSegmentCache()

type Answer = Extract<ToThread, { kind: 'answer' }>['answer']
/** The searches that wait for an answer, by id. Each search waits for one answer at a time. */
const waiting = new Map<number, (answer: Answer) => void>()

port.on('message', (message: ToThread) => {
  if (message.kind === 'rank') void rank(message.id, message)
  else {
    const proceed = waiting.get(message.id)
    waiting.delete(message.id)
    // A cancelled search never proceeds, so nothing refers to it any more.
    if (message.kind === 'answer') proceed?.(message.answer)
  }
})

async function rank(id: number, { query, limit, ...stored }: RankTask): Promise<void> {
  try {
    send({ kind: 'ranked', id, ranked: await rankStored(id, query, limit, stored) })
  } catch (error) {
    send({ kind: 'failed', id, error })
  }
}

function rankStored(
  id: number,
  query: string,
  limit: number,
  { published, deleted }: Pick<RankTask, 'published' | 'deleted'>,
): Promise<Ranked[]> {
  const read = <Of extends Answer>(asked: Read): Promise<Of> =>
    new Promise((resolve) => {
      waiting.set(id, resolve as (answer: Answer) => void)
      send({ kind: 'read', id, ...asked })
    })
  const reader: IndexReader = {
    ...cache({
      published,
      async passages(keys) {
        const parts = unpack(await read<Packed>({ part: 'segments', keys }))
        return keys.map((_, at) => {
          const [passages, lengths] = [parts[at * 2] as Uint8Array, parts[at * 2 + 1] as Uint8Array]
          return passages.length === 0 ? undefined : { passages, lengths }
        })
      },
      pages: async (keys) => unpack(await read<Packed>({ part: 'pages', keys })),
    }),
    deleted: decodeRuns(deleted),
    passages: async (keys) => decodeMatches(await read<string>({ part: 'passages', keys })),
  }
  return rankIndex(reader, queryOf(query), limit)
}
