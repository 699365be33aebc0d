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
import type { GuardHit } from '../../guards/redaction.ts'
import type { Log } from '../../log.ts'
import type { PackedSegment, PreparedDocument } from '../prepared-document.ts'
import type { FileToRead, PassagesToPrepare, WorkerMessage, WorkerTask } from './messages.ts'
import { UnreadableDocument } from './unreadable.ts'

/** For whom a thread works, and until when. Where several wait, each `lane` (a tenant) has its turn. */
export type WorkFor = { lane: string; signal: AbortSignal }

/** A document that is ready to be stored, or why there is none; `hits` are what rules found in it. */
export type ReadFile = { document: PreparedDocument | UnreadableDocument; hits: readonly GuardHit[] }

/** What was read, in the order of the files. `together`: the segment of the small documents among them (see Preparation). */
export type ReadFiles = { files: ReadFile[]; together: PackedSegment | undefined }

export type Extractor = {
  /**
   * Reads files of any kind in a thread of its own, within limits of time and memory, does what rules ask about what they
   * say, and prepares them to be stored; in their order, an UnreadableDocument for each that cannot be read, that a rule
   * blocks or that goes beyond a limit. Several at a time are for small ones, which cost less than the way to the thread.
   * @param rules RuleSources in JSON; without it nothing is looked for
   * @throws the reason of `signal`
   */
  read(files: readonly FileToRead[], by: WorkFor, rules?: string): Promise<ReadFiles>
  /** Makes the segment of passages that are stored already. @throws the reason of `signal` */
  prepare(documents: readonly PassagesToPrepare[], by: WorkFor): Promise<PackedSegment>
  /** Makes one segment of several. @throws the reason of `signal` */
  join(segments: readonly PackedSegment[], by: WorkFor): Promise<PackedSegment>
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

  async function work(task: WorkerTask, { lane, signal }: WorkFor): Promise<WorkerMessage> {
    const place = await enter(lane)
    try {
      place.idle?.cancel()
      const stop = AbortSignal.any([signal, closing.signal])
      stop.throwIfAborted()
      const worker = place.worker ?? startWorker(place, deps)
      const outcome = await workWith(worker, task, stop, deps)
      if ('message' in outcome) return outcome.message
      await endWorker(place)
      throw outcome.error
    } finally {
      leave(place)
    }
  }

  async function makeSegment(task: WorkerTask, by: WorkFor): Promise<PackedSegment> {
    const message = await work(task, by)
    return (message as Extract<WorkerMessage, { kind: 'joined' }>).segment
  }

  async function read(files: readonly FileToRead[], by: WorkFor, rules?: string): Promise<ReadFiles> {
    try {
      const message = await work({ kind: 'read', files, rules }, by)
      const { outcomes, together } = message as Extract<WorkerMessage, { kind: 'read' }>
      const read = outcomes.map((outcome, at) => {
        if ('document' in outcome) return outcome
        const { unreadable, cause, hits } = outcome
        if (cause !== undefined) log.info({ document: files[at]?.source, reason: cause }, 'document could not be read')
        return { document: new UnreadableDocument(unreadable), hits }
      })
      return { files: read, together }
    } catch (error) {
      if (!(error instanceof UnreadableDocument)) throw error
      // One of them took the thread along. The others are readable.
      if (files.length === 1) return { files: [{ document: error, hits: [] }], together: undefined }
      const alone: ReadFiles[] = []
      for (const file of files) alone.push(await read([file], by, rules))
      const segments = alone.flatMap(({ together }) => together ?? [])
      return {
        files: alone.flatMap((one) => one.files),
        together: segments.length === 0 ? undefined : await makeSegment({ kind: 'join', segments }, by),
      }
    }
  }

  return {
    read,
    prepare: (documents, by) => makeSegment({ kind: 'prepare', documents }, by),
    join: (segments, by) => makeSegment({ kind: 'join', segments }, by),
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

type Outcome = { message: WorkerMessage } | { error: unknown }

/** Has one task done, and watches over it: whatever happens, it ends. After an `error` the thread is of no more use. */
function workWith(
  worker: Worker,
  task: WorkerTask,
  stop: AbortSignal,
  { clock, memoryUsed = process.memoryUsage.rss }: ExtractorDeps,
): Promise<Outcome> {
  const atMost = memoryUsed() + EXTRACT_GROWTH_BYTES
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
    const giveUp = (error: unknown) => end({ error })
    const onStop = () => giveUp(stop.reason)
    const onExit = () => giveUp(new Error('the thread that read a file has ended'))
    const onError = (error: NodeJS.ErrnoException) =>
      giveUp(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooMuchMemory() : error)
    const onMessage = (message: WorkerMessage) => end({ message })

    stop.addEventListener('abort', onStop)
    worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    worker.postMessage(task)
  })
}

const tooMuchMemory = () => new UnreadableDocument('Reading the file takes too much memory; split it.')
