import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { EXTRACT_WATCH_MS } from '../../../../shared/spec-limits.ts'
import type { ProcessMessage, ProcessOptions, WorkerMessage, WorkerTask } from './messages.ts'

// A process that reads files. Its own thread does nothing of that: it hands tasks to one that does (worker.ts), and ends with
// it when that takes too much memory, or when the daemon is gone, however busy the other is.

const { worker: file, heapMb, growthBytes, lowPriority } = JSON.parse(process.argv[2] ?? '') as ProcessOptions

const LOWEST_PRIORITY = 19

/**
 * Files can wait, chats cannot. On Linux each thread has a priority of its own, which those that it starts inherit; the threads
 * that compile and collect garbage run already. Where a sandbox forbids it, files are read all the same.
 */
function lowerPriority(): void {
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task').map(Number) : [process.pid]
  for (const thread of threads) {
    try {
      setPriority(thread, LOWEST_PRIORITY)
    } catch {
      // Forbidden, or the thread has just ended.
    }
  }
  // Below the lowest: who wakes up takes the core from an idle task at once, and from one of low priority sometimes only when
  // its time is over. Node cannot ask for that; where nobody else can, the low priority has to do.
  if (process.platform === 'linux') spawnSync('chrt', ['-a', '-i', '-p', '0', String(process.pid)], { stdio: 'ignore' })
}

if (lowPriority) lowerPriority()

// Ctrl-C and service managers signal every process at once. What is being read then still belongs to a request that is served.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

const send = (message: ProcessMessage) => process.send?.(message)
const failed = (reason: 'memory' | 'fault', message: string) =>
  process.send?.({ kind: 'failed', reason, message } satisfies ProcessMessage, () => process.exit(1))

const worker = new Worker(new URL(file ?? './worker.js', import.meta.url), {
  env: {},
  execArgv: [],
  stdout: true,
  stderr: true,
  resourceLimits: { maxOldGenerationSizeMb: heapMb },
})
// What libraries print is nobody's business.
worker.stdout.resume()
worker.stderr.resume()
worker.on('message', (message: WorkerMessage) => send(message))
worker.on('error', (error: NodeJS.ErrnoException) =>
  failed(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'fault', error.message),
)
worker.on('exit', () => failed('fault', 'the thread that read a file has ended'))

let atMost = Number.POSITIVE_INFINITY
process.on('message', (task: WorkerTask) => {
  atMost = process.memoryUsage.rss() + growthBytes
  worker.postMessage(task)
})
// What lies outside of the heap, the heap's limit does not know: a stream of a PDF may unpack to gigabytes.
setInterval(() => {
  if (process.memoryUsage.rss() > atMost) failed('memory', 'the process grew too much')
}, EXTRACT_WATCH_MS)
