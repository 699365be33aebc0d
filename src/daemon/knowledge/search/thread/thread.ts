import { Worker } from 'node:worker_threads'
import type { Clock } from '../../../../shared/time.ts'
import type { Ranked } from '../rank.ts'
import type { StoredIndex } from '../stored-index.ts'
import { type FromThread, pack, type Read, type ToThread } from './messages.ts'

/** The maximum time of one search on the thread. */
export const RANKING_TIMEOUT_MS = 30_000
/** The maximum JavaScript heap of the thread, without the cache: the cache is outside of the heap. */
const HEAP = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }

/** The thread has ended while a search was running on it. */
export class ThreadEnded extends Error {
  override name = 'ThreadEnded'
}

/** A search took longer than RANKING_TIMEOUT_MS. */
export class RankingTimeout extends Error {
  override name = 'RankingTimeout'
}

export type RankingThread = {
  /**
   * Ranks the passages of an index. Reads the index when the thread asks for a part of it.
   * @throws ThreadEnded, RankingTimeout, errors of the store and of the ranking, and the signal's reason
   */
  rank(index: StoredIndex, query: string, limit: number, signal: AbortSignal): Promise<readonly Ranked[]>
  /** Ends the thread. Running searches throw ThreadEnded. */
  end(): Promise<void>
}

/** One search on the thread. */
type Conversation = {
  /** Resolves to the thread's next message. Rejects with the reason of `stop`, even if `stop` was called before. */
  next(): Promise<FromThread>
  receive(message: FromThread): void
  stop(reason: unknown): void
}

const PROGRAM = new URL('./ranking-thread.js', import.meta.url)

/** Starts the thread. `onEnd` is called once, when the thread has ended, with the error that ended it. */
export function startThread(
  { program = PROGRAM, clock }: { program: URL | undefined; clock: Clock },
  onEnd: (error: unknown) => void,
): RankingThread {
  const worker = new Worker(program, { env: {}, execArgv: [], resourceLimits: HEAP })
  const running = new Map<number, Conversation>()
  let lastId = 0
  let failure: unknown
  // Only a running search keeps the process alive.
  worker.unref()
  worker.on('message', (message: FromThread) => running.get(message.id)?.receive(message))
  worker.on('error', (error) => {
    failure = error
  })
  worker.on('exit', () => {
    onEnd(failure)
    const ended = new ThreadEnded('the thread that ranks has ended', { cause: failure })
    for (const { stop } of running.values()) stop(ended)
  })
  const send = (message: ToThread, transferred: ArrayBuffer[] = []) => worker.postMessage(message, transferred)

  async function answer(id: number, { part, keys }: Read, index: StoredIndex): Promise<void> {
    if (part === 'passages') {
      send({ kind: 'answer', id, answer: await index.passages(keys) })
      return
    }
    const parts = part === 'pages' ? await index.pages(keys) : toParts(await index.segments(keys))
    const packed = pack(parts)
    send({ kind: 'answer', id, answer: packed }, [packed.bytes.buffer])
  }

  return {
    async rank(index, query, limit, signal) {
      signal.throwIfAborted()
      const id = ++lastId
      const conversation = startConversation()
      if (running.size === 0) worker.ref()
      running.set(id, conversation)
      const onAbort = () => conversation.stop(signal.reason)
      signal.addEventListener('abort', onAbort)
      const timeout = clock.after(RANKING_TIMEOUT_MS, () => {
        conversation.stop(new RankingTimeout(`the ranking took more than ${RANKING_TIMEOUT_MS / 1000} seconds`))
        // The thread may be in an endless loop, and then it would never see a cancellation.
        void worker.terminate()
      })
      try {
        const { published, deleted } = index
        send({ kind: 'rank', id, query, limit, published, deleted })
        for (;;) {
          const message = await conversation.next()
          if (message.kind === 'ranked') return message.ranked
          if (message.kind === 'failed') throw message.error
          // A read that has begun always ends before the search does: the transaction of the search cannot end during a
          // statement.
          await answer(id, message, index)
        }
      } catch (error) {
        send({ kind: 'cancel', id })
        throw error
      } finally {
        timeout.cancel()
        signal.removeEventListener('abort', onAbort)
        running.delete(id)
        if (running.size === 0) worker.unref()
      }
    },
    async end() {
      await worker.terminate()
    },
  }
}

const toParts = (segments: Awaited<ReturnType<StoredIndex['segments']>>): Uint8Array[] =>
  segments.flatMap((stored) => (stored ? [stored.passages, stored.lengths] : [MISSING, MISSING]))

const MISSING = new Uint8Array()

function startConversation(): Conversation {
  let stopped: { reason: unknown } | undefined
  let waiting: { resolve(message: FromThread): void; reject(reason: unknown): void } | undefined
  return {
    next() {
      if (stopped) return Promise.reject(stopped.reason)
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject }
      })
    },
    receive: (message) => waiting?.resolve(message),
    stop(reason) {
      stopped ??= { reason }
      waiting?.reject(stopped.reason)
    },
  }
}
