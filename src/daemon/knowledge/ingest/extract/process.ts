import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { ProcessMessage, ProcessOptions, WorkerMessage, WorkerTask } from './messages.ts'

/** How often the memory growth of the process is checked. */
const EXTRACT_WATCH_MS = 200

// A process that reads files. Its main thread only forwards tasks to a worker thread (worker.ts). Even while the worker
// is busy, the main thread ends the process if the worker takes too much memory or the daemon has exited.

const { worker: file, heapMb, growthBytes, lowPriority } = JSON.parse(process.argv[2] ?? '') as ProcessOptions

const LOWEST_PRIORITY = 19

/**
 * Chats take precedence over reading files. On Linux each thread has its own priority, and new threads inherit it. The
 * compiler and garbage collector threads are already running, so the priority of each thread is set. If a sandbox
 * forbids setting the priority, files are read at normal priority.
 */
function lowerPriority(): void {
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task').map(Number) : [process.pid]
  for (const thread of threads) {
    try {
      setPriority(thread, LOWEST_PRIORITY)
    } catch {
      // The error is ignored: either a sandbox forbids setting the priority, or the thread has just ended.
    }
  }
  // Use the policy SCHED_IDLE as well. A waking thread preempts a SCHED_IDLE task immediately. If the task only had low
  // priority, the thread might wait until the task's time slice ends. Node cannot set this policy, so `chrt` sets it.
  // Without `chrt`, only the low priority applies.
  if (process.platform === 'linux') spawnSync('chrt', ['-a', '-i', '-p', '0', String(process.pid)], { stdio: 'ignore' })
}

if (lowPriority) lowerPriority()

// Ctrl-C and service managers send their signals to every process. This process ignores them, because requests in
// flight still need its results.
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
// The output of libraries is discarded.
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
// The heap limit does not cover memory outside of the heap. For example, one stream of a PDF may unpack to gigabytes
// there.
setInterval(() => {
  if (process.memoryUsage.rss() > atMost) failed('memory', 'the process used too much memory')
}, EXTRACT_WATCH_MS)
