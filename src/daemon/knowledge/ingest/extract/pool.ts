import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { EXTRACT_GROWTH_BYTES } from '../../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../../shared/time.ts'
import type { Log } from '../../../platform/log.ts'
import type { GuardHit } from '../../../safety/guards/redaction.ts'
import type { PackedSegment, PreparedDocument } from '../prepared-document.ts'
import type {
  FileToRead,
  PassagesToPrepare,
  ProcessMessage,
  ProcessOptions,
  TextToRead,
  WorkerMessage,
  WorkerTask,
} from './messages.ts'
import { UnreadableDocument } from './unreadable.ts'

/** The timeout for processing one file, from its first byte to its last passage. */
export const EXTRACT_TIMEOUT_MS = 120_000
/** The maximum JavaScript heap of the process that reads a file. */
const EXTRACT_HEAP_MB = 768
/** How long an idle process is kept for the next file. */
export const EXTRACT_IDLE_MS = 60_000

/**
 * The tenant that requested the work, and the signal that cancels the work. Waiting tenants are served round-robin.
 */
export type WorkFor = { tenantId: string; signal: AbortSignal }

/**
 * A document that is ready to be stored, or the reason why it cannot be read. `hits` lists the matches of the rules in
 * the document.
 */
export type ReadFile = { document: PreparedDocument | UnreadableDocument; hits: readonly GuardHit[] }

/**
 * The results of reading files, in the order of the files. `together` is the segment of the small documents among these
 * files (see Preparation).
 */
export type ReadFiles = { files: ReadFile[]; together: PackedSegment | undefined }

export type Extractor = {
  /**
   * Reads files of any kind in a separate process, with limits on time and memory. Applies the rules to the text of the
   * files and prepares the documents to be stored. The results are in the order of the files. A file that cannot be
   * read, that a rule blocks or that exceeds a limit results in an UnreadableDocument. Callers should send several
   * files in one call only if the files are small: for a small file, the message costs more than the work.
   * @param rules RuleSources in JSON. If undefined, rules are not applied.
   * @throws the reason of `signal`
   */
  read(files: readonly FileToRead[], by: WorkFor, rules?: string): Promise<ReadFiles>
  /**
   * Returns the text of a file, with the same limits. Undefined if the file cannot be read, or if its text is longer
   * than `limit` characters.
   * @throws the reason of `signal`
   */
  text(file: TextToRead, by: WorkFor, limit: number): Promise<string | undefined>
  /** Creates the segment of stored passages. @throws the reason of `signal` */
  prepare(documents: readonly PassagesToPrepare[], by: WorkFor): Promise<PackedSegment>
  /** Joins several segments into one. @throws the reason of `signal` */
  join(segments: readonly PackedSegment[], by: WorkFor): Promise<PackedSegment>
  /** Ends all processes. Reads in progress fail. */
  close(): Promise<void>
}

export type ExtractorDeps = {
  clock: Clock
  log: Log
  /** The program that a process runs (process.ts). */
  program?: URL | undefined
} & Partial<ProcessOptions>

/** A slot for one process. The process is started on first use. */
type Slot = { reader: ChildProcess | undefined; idle: Timer | undefined; busy: boolean }

const PROGRAM = new URL('./process.js', import.meta.url)
/** Number of processes. One core is left for chats. */
const SLOTS = Math.max(1, Math.min(2, availableParallelism() - 1))

/**
 * Creates an extractor. The extractor starts processes on demand. A process ends after EXTRACT_IDLE_MS without work.
 */
export function createExtractor(deps: ExtractorDeps): Extractor {
  const { clock, log } = deps
  const slots: Slot[] = Array.from({ length: SLOTS }, () => ({ reader: undefined, idle: undefined, busy: false }))
  /** The waiting requests by tenant. The first tenant is served next. */
  const waiting = new Map<string, ((slot: Slot) => void)[]>()
  const closing = new AbortController()

  function acquire(tenantId: string): Promise<Slot> {
    // Prefer slots with a running process.
    const free = slots.filter(({ busy }) => !busy)
    const slot = free.find(({ reader }) => reader !== undefined) ?? free[0]
    if (!slot) return new Promise((resolve) => waiting.set(tenantId, [...(waiting.get(tenantId) ?? []), resolve]))
    slot.busy = true
    return Promise.resolve(slot)
  }

  function release(slot: Slot): void {
    const [next] = waiting
    if (next) {
      const [tenantId, [first, ...others]] = next
      waiting.delete(tenantId)
      // Move the tenant to the end of the queue, so that the other tenants are served first.
      if (others.length > 0) waiting.set(tenantId, others)
      first?.(slot)
      return
    }
    slot.busy = false
    if (slot.reader && !closing.signal.aborted) slot.idle = clock.after(EXTRACT_IDLE_MS, () => void endReader(slot))
  }

  async function work(task: WorkerTask, { tenantId, signal }: WorkFor): Promise<Answer> {
    const slot = await acquire(tenantId)
    try {
      slot.idle?.cancel()
      const stop = AbortSignal.any([signal, closing.signal])
      stop.throwIfAborted()
      const reader = slot.reader ?? startReader(slot, deps)
      const outcome = await workWith(reader, task, stop, clock)
      if ('answer' in outcome) return outcome.answer
      await endReader(slot)
      throw outcome.error
    } finally {
      release(slot)
    }
  }

  async function makeSegment(task: WorkerTask, by: WorkFor): Promise<PackedSegment> {
    const answer = await work(task, by)
    return (answer as Extract<Answer, { kind: 'joined' }>).segment
  }

  async function read(files: readonly FileToRead[], by: WorkFor, rules?: string): Promise<ReadFiles> {
    try {
      const answer = await work({ kind: 'read', files, rules }, by)
      const { outcomes, together } = answer as Extract<Answer, { kind: 'read' }>
      const read = outcomes.map((outcome, at) => {
        if ('document' in outcome) return outcome
        const { unreadable, cause, hits } = outcome
        if (cause !== undefined) log.info({ document: files[at]?.source, reason: cause }, 'document could not be read')
        return { document: new UnreadableDocument(unreadable), hits }
      })
      return { files: read, together }
    } catch (error) {
      if (!(error instanceof UnreadableDocument)) throw error
      // One of the files in this task crashed the process. Read each file separately, because the other files may be
      // readable.
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
    async text(file, by, limit) {
      try {
        const answer = await work({ kind: 'text', file, limit }, by)
        return (answer as Extract<Answer, { kind: 'text' }>).text
      } catch (error) {
        if (error instanceof UnreadableDocument) return undefined
        throw error
      }
    },
    prepare: (documents, by) => makeSegment({ kind: 'prepare', documents }, by),
    join: (segments, by) => makeSegment({ kind: 'join', segments }, by),
    async close() {
      closing.abort(new Error('the daemon is closing'))
      for (const slot of slots) {
        slot.idle?.cancel()
        await endReader(slot)
      }
    },
  }
}

/**
 * Starts a process. The process gets an empty environment and none of the daemon's flags. The output of its libraries
 * is discarded.
 */
function startReader(
  slot: Slot,
  {
    program = PROGRAM,
    worker,
    heapMb = EXTRACT_HEAP_MB,
    growthBytes = EXTRACT_GROWTH_BYTES,
    lowPriority = true,
  }: ExtractorDeps,
): ChildProcess {
  const options: ProcessOptions = { worker, heapMb, growthBytes, lowPriority }
  const reader = fork(program, [JSON.stringify(options)], {
    env: {},
    // Use a single thread for garbage collection: a parallel collector would occupy all cores for tenths of a second.
    execArgv: ['--single-threaded-gc'],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  reader.unref()
  reader.channel?.unref()
  // Without this listener, an error of an abandoned process would crash the daemon.
  reader.on('error', () => {})
  reader.on('exit', () => {
    if (slot.reader === reader) slot.reader = undefined
  })
  slot.reader = reader
  return reader
}

async function endReader(slot: Slot): Promise<void> {
  const { reader } = slot
  slot.reader = undefined
  if (reader === undefined || reader.exitCode !== null || reader.signalCode !== null) return
  const ended = once(reader, 'exit')
  reader.kill('SIGKILL')
  await ended
}

type Answer = Exclude<WorkerMessage, { kind: 'part' }>
type Outcome = { answer: Answer } | { error: unknown }

/**
 * Runs one task. Every task ends: a timeout stops it if it takes too long. After an `error`, the process cannot be used
 * again.
 */
function workWith(reader: ChildProcess, task: WorkerTask, stop: AbortSignal, clock: Clock): Promise<Outcome> {
  return new Promise((resolve) => {
    const parts: Part[] = []
    const timeout = clock.after(EXTRACT_TIMEOUT_MS, () =>
      giveUp(
        new UnreadableDocument(`Reading the file takes more than ${EXTRACT_TIMEOUT_MS / 1000} seconds; split it.`),
      ),
    )
    function end(outcome: Outcome): void {
      timeout.cancel()
      stop.removeEventListener('abort', onStop)
      reader.off('message', onMessage).off('error', giveUp).off('exit', onExit)
      resolve(outcome)
    }
    const giveUp = (error: unknown) => end({ error })
    const onStop = () => giveUp(stop.reason)
    const onExit = () => giveUp(new Error('the process that read a file has ended'))
    function onMessage(message: ProcessMessage): void {
      if (message.kind === 'part') parts.push(message)
      else if (message.kind !== 'failed') end({ answer: withParts(message, parts) })
      else giveUp(message.reason === 'memory' ? tooMuchMemory() : new Error(message.message))
    }

    stop.addEventListener('abort', onStop)
    reader.on('message', onMessage).on('error', giveUp).on('exit', onExit)
    reader.send(task, (error) => {
      if (error !== null) giveUp(error)
    })
  })
}

type Part = Extract<WorkerMessage, { kind: 'part' }>

/** Merges the contents of the earlier `part` messages into the response. */
function withParts(answer: Answer, parts: readonly Part[]): Answer {
  if (answer.kind !== 'read') return answer
  for (const { file, batches, segments } of parts) {
    const outcome = answer.outcomes[file]
    if (outcome === undefined || !('document' in outcome)) continue
    outcome.document.batches.push(...batches)
    outcome.document.segments.push(...segments)
  }
  return answer
}

const tooMuchMemory = () => new UnreadableDocument('Reading the file takes too much memory; split it.')
