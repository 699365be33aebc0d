import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import {
  EXTRACT_GROWTH_BYTES,
  EXTRACT_HEAP_MB,
  EXTRACT_IDLE_MS,
  EXTRACT_TIMEOUT_MS,
  EXTRACT_WATCH_MS,
} from '../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../shared/time.ts'
import type { Log } from '../../log.ts'
import type { Passage } from '../chunking.ts'
import type { FileToRead, WorkerMessage } from './messages.ts'
import { UnreadableDocument } from './unreadable.ts'

export type ReadDocument = { title: string; passages: Passage[] }

export type Extractor = {
  /**
   * Reads a file of any kind in a thread of its own, within limits of time and memory. Where several wait, each `lane` (a
   * tenant) has its turn.
   * @throws UnreadableDocument for one that cannot be read or goes beyond a limit, and the reason of `signal`.
   */
  read(file: FileToRead, by: { lane: string; signal: AbortSignal }): Promise<ReadDocument>
  /** Ends all threads; what is being read fails. */
  close(): Promise<void>
}

export type ExtractorDeps = {
  clock: Clock
  log: Log
  /** The file that a thread runs. */
  worker?: URL | undefined
  heapMb?: number
  /** Memory of this process in bytes. */
  memoryUsed?: () => number
}

/** A place for one thread, which is there only when it is used. */
type Place = { worker: Worker | undefined; idle: Timer | undefined; busy: boolean }

const WORKER = new URL('./worker.js', import.meta.url)
/** One core is left to those who chat. */
const PLACES = Math.max(1, Math.min(2, availableParallelism() - 1))

/** Threads are started when there is something to read, and ended when there has been nothing for EXTRACT_IDLE_MS. */
export function createExtractor(deps: ExtractorDeps): Extractor {
  const { clock, log } = deps
  const places: Place[] = Array.from({ length: PLACES }, () => ({ worker: undefined, idle: undefined, busy: false }))
  /** Who waits, by lane; the first lane has the next turn. */
  const lanes = new Map<string, ((place: Place) => void)[]>()
  const closing = new AbortController()

  function enter(lane: string): Promise<Place> {
    // One whose thread runs already is better.
    const free = places.filter(({ busy }) => !busy)
    const place = free.find(({ worker }) => worker !== undefined) ?? free[0]
    if (!place) return new Promise((resolve) => lanes.set(lane, [...(lanes.get(lane) ?? []), resolve]))
    place.busy = true
    return Promise.resolve(place)
  }

  function leave(place: Place): void {
    const [next] = lanes
    if (next) {
      const [lane, [first, ...others]] = next
      lanes.delete(lane)
      // Behind all the others: theirs are the next turns.
      if (others.length > 0) lanes.set(lane, others)
      first?.(place)
      return
    }
    place.busy = false
    if (place.worker && !closing.signal.aborted) place.idle = clock.after(EXTRACT_IDLE_MS, () => void endWorker(place))
  }

  return {
    async read(file, { lane, signal }) {
      const place = await enter(lane)
      try {
        place.idle?.cancel()
        const stop = AbortSignal.any([signal, closing.signal])
        stop.throwIfAborted()
        const worker = place.worker ?? startWorker(place, deps)
        const outcome = await readWith(worker, file, stop, deps)
        if (!outcome.reusable) await endWorker(place)
        if ('document' in outcome) return outcome.document
        if (outcome.error instanceof UnreadableDocument && outcome.error.cause !== undefined) {
          log.info({ document: file.name, reason: String(outcome.error.cause) }, 'document could not be read')
        }
        throw outcome.error
      } finally {
        leave(place)
      }
    },
    async close() {
      closing.abort(new Error('the daemon is closing'))
      for (const place of places) {
        place.idle?.cancel()
        await endWorker(place)
      }
    },
  }
}

/** The thread sees neither our environment nor our flags, and what its libraries print is nobody's business. */
function startWorker(place: Place, { worker: file = WORKER, heapMb = EXTRACT_HEAP_MB }: ExtractorDeps): Worker {
  const worker = new Worker(file, {
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: heapMb },
  })
  worker.stdout.resume()
  worker.stderr.resume()
  worker.unref()
  // A thread that fails after it was given up must not take the daemon along.
  worker.on('error', () => {})
  worker.on('exit', () => {
    if (place.worker === worker) place.worker = undefined
  })
  place.worker = worker
  return worker
}

async function endWorker(place: Place): Promise<void> {
  const { worker } = place
  place.worker = undefined
  await worker?.terminate()
}

type Outcome = { reusable: true; document: ReadDocument } | { reusable: boolean; error: unknown }

/** Has one file read, and watches over it: whatever happens, it ends. */
function readWith(
  worker: Worker,
  file: FileToRead,
  stop: AbortSignal,
  { clock, memoryUsed = process.memoryUsage.rss }: ExtractorDeps,
): Promise<Outcome> {
  const atMost = memoryUsed() + EXTRACT_GROWTH_BYTES
  const passages: Passage[] = []
  return new Promise((resolve) => {
    let watch = clock.after(EXTRACT_WATCH_MS, look)
    const timeout = clock.after(EXTRACT_TIMEOUT_MS, () =>
      giveUp(
        new UnreadableDocument(`Reading the file takes more than ${EXTRACT_TIMEOUT_MS / 1000} seconds; split it.`),
      ),
    )
    // What lies outside of the heap, the heap's limit does not know: a stream of a PDF may unpack to gigabytes.
    function look(): void {
      if (memoryUsed() > atMost) giveUp(tooMuchMemory())
      else watch = clock.after(EXTRACT_WATCH_MS, look)
    }
    function end(outcome: Outcome): void {
      watch.cancel()
      timeout.cancel()
      stop.removeEventListener('abort', onStop)
      worker.off('message', onMessage).off('error', onError).off('exit', onExit)
      resolve(outcome)
    }
    const giveUp = (error: unknown) => end({ reusable: false, error })
    const onStop = () => giveUp(stop.reason)
    const onExit = () => giveUp(new Error('the thread that read a file has ended'))
    const onError = (error: NodeJS.ErrnoException) =>
      giveUp(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooMuchMemory() : error)
    function onMessage(message: WorkerMessage): void {
      if (message.kind === 'passages') for (const passage of message.passages) passages.push(passage)
      else if (message.kind === 'done') end({ reusable: true, document: { title: message.title, passages } })
      else end({ reusable: true, error: new UnreadableDocument(message.message, { cause: message.cause }) })
    }

    stop.addEventListener('abort', onStop)
    worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    worker.postMessage(file)
  })
}

const tooMuchMemory = () => new UnreadableDocument('Reading the file takes too much memory; split it.')
