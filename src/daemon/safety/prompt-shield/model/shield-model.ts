import { Worker } from 'node:worker_threads'
import type { Clock, Timer } from '../../../../shared/time.ts'
import type { Log } from '../../../platform/log.ts'
import type { ShieldModelConfig } from '../../config.ts'
import type { FromModelThread, ModelSettings, ToModelThread } from './messages.ts'

/** The operator's model for the prompt shield. */
export type ShieldModel = {
  /**
   * Returns the probability of an attack in a text, 0 to 1: the highest of the parts that the model has read in time.
   * Returns undefined if it has read none, or has failed.
   */
  score(text: string): Promise<number | undefined>
  close(): Promise<void>
}

/** The size of a part in characters per token of the model's limit, and the share of a part that the next one repeats. */
const CHARS_PER_TOKEN = 3
const OVERLAP = 0.1
/** The maximum number of parts of a text that the model reads. */
const PARTS = 64
/** The maximum number of parts that the model reads at once, and of texts that wait. */
const BATCH = 8
const WAITING = 256
/** The maximum time of one batch. After that, the thread is restarted. */
export const SHIELD_MODEL_BATCH_MS = 10_000
/** The time after a failure during which the model is not asked. */
export const SHIELD_MODEL_PAUSE_MS = 10_000
/** The maximum JavaScript heap of the thread. The weights of the model are outside of the heap. */
const HEAP = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }

const PROGRAM = new URL('./model-thread.js', import.meta.url)

/** A text that the model reads part by part. */
type Reading = { parts: string[]; open: number; highest: number | undefined; done(): void }

/**
 * Starts the thread of the model and waits until the model is loaded.
 * @param program the built program of the thread
 * @throws Error that says why the model cannot be loaded
 */
export async function openShieldModel(
  config: ShieldModelConfig,
  { clock, log, program = PROGRAM }: { clock: Clock; log: Pick<Log, 'warn' | 'error'>; program?: URL | undefined },
): Promise<ShieldModel> {
  const { folder, file, attackLabels, examples, maxTokens, threads, timeoutMs } = config
  const settings: ModelSettings = { folder, file, attackLabels, examples, maxTokens, threads }
  const partChars = maxTokens * CHARS_PER_TOKEN
  let thread: Worker | undefined
  let isClosed = false
  let pausedUntilMs = Number.NEGATIVE_INFINITY
  /** The texts with parts that the model has not read, each once. They take turns, so a long text delays no other. */
  let waiting: Reading[] = []
  let batch: { id: number; of: Reading[]; timer: Timer } | undefined
  let lastId = 0

  const pause = () => {
    pausedUntilMs = clock.monotonic() + SHIELD_MODEL_PAUSE_MS
  }

  function fail(error: unknown): void {
    pause()
    log.warn({ model: folder, error }, 'the model of the prompt shield did not answer; the other layers decide')
    const given = new Set([...(batch?.of ?? []), ...waiting])
    batch?.timer.cancel()
    batch = undefined
    waiting = []
    for (const { done } of given) done()
  }

  function start(): Promise<void> {
    return new Promise((resolve, reject) => {
      const worker = new Worker(program, { workerData: settings, env: {}, execArgv: [], resourceLimits: HEAP })
      let failure: unknown
      worker.on('message', (message: FromModelThread) => {
        if (message.kind !== 'ready') {
          receive(message)
          return
        }
        thread = worker
        // The model alone does not keep the process alive.
        worker.unref()
        resolve()
      })
      worker.on('error', (error) => {
        failure = error
      })
      worker.on('exit', () => {
        const reason = failure ?? new Error('the thread of the model has ended')
        reject(reason)
        if (thread !== worker) return
        thread = undefined
        if (!isClosed && batch) fail(reason)
      })
    })
  }

  function receive(message: Exclude<FromModelThread, { kind: 'ready' }>): void {
    if (message.id !== batch?.id) return
    if (message.kind === 'failed') {
      fail(message.error)
      return
    }
    const { of: readings, timer } = batch
    timer.cancel()
    batch = undefined
    for (const [at, reading] of readings.entries()) {
      reading.highest = Math.max(reading.highest ?? 0, message.scores[at]!)
      reading.open--
      if (reading.open === 0) reading.done()
    }
    proceed()
  }

  function proceed(): void {
    if (batch || waiting.length === 0 || !thread) return
    const readings: Reading[] = []
    const texts: string[] = []
    let longest = 0
    while (texts.length < BATCH && waiting.length > 0) {
      const reading = waiting[0]!
      longest = Math.max(longest, reading.parts[0]!.length)
      // The model pads every text to the longest one, so the batch costs at most as much as one whole part.
      if (texts.length > 0 && longest * (texts.length + 1) > partChars) break
      waiting.shift()
      readings.push(reading)
      texts.push(reading.parts.shift()!)
      if (reading.parts.length > 0) waiting.push(reading)
    }
    const timer = clock.after(SHIELD_MODEL_BATCH_MS, () => {
      // The thread may be in an endless loop, so it is ended.
      void thread?.terminate()
    })
    batch = { id: ++lastId, of: readings, timer }
    thread.postMessage({ id: lastId, texts } satisfies ToModelThread)
  }

  // From version 1.29, the runtime sends reports about its use to its maker, unless the process has this variable before
  // the runtime is loaded. A thread's own environment would not reach it.
  process.env.ORT_DISABLE_TELEMETRY = '1'
  await start().catch((cause) => {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`prompt_shield.model: cannot load the model in ${folder}: ${reason}`, { cause })
  })
  return {
    async score(text) {
      if (clock.monotonic() < pausedUntilMs || waiting.length >= WAITING) return undefined
      if (!thread) {
        pause()
        start().catch((error) => log.error({ model: folder, error }, 'the model of the prompt shield cannot be loaded'))
        return undefined
      }
      const parts = partsOf(text, partChars)
      return new Promise((resolve) => {
        const done = () => {
          timer.cancel()
          waiting = waiting.filter((one) => one !== reading)
          resolve(reading.highest)
        }
        const reading: Reading = { parts, open: parts.length, highest: undefined, done }
        const timer = clock.after(timeoutMs, done)
        waiting.push(reading)
        proceed()
      })
    },
    async close() {
      isClosed = true
      await thread?.terminate()
    },
  }
}

/** Splits a text into overlapping parts, from both ends to the middle. A part in the middle of a very long text is left out. */
function partsOf(text: string, chars: number): string[] {
  const step = Math.ceil(chars * (1 - OVERLAP))
  const parts: string[] = []
  for (let start = 0; start === 0 || start + chars - step < text.length; start += step)
    parts.push(text.slice(start, start + chars))
  const ordered: string[] = []
  for (let [low, high] = [0, parts.length - 1]; low <= high && ordered.length < PARTS; low++, high--) {
    ordered.push(parts[low]!)
    if (high > low) ordered.push(parts[high]!)
  }
  return ordered
}
