import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { BenchError, root } from './build.mjs'
import { pinned } from './machine.mjs'

const CHILD_START_TIMEOUT_MS = 15_000
const CHILD_STOP_TIMEOUT_MS = 10_000
const KEPT_OUTPUT_CHARS = 4000

/**
 * Starts a child process that prints {"msg":"listening","url":…} as a JSON line on stdout when it listens.
 * @param {{name: string, argv: string[], cpu?: number, env?: Record<string, string>}} options
 */
function startChild({ name, argv, cpu, env = {} }) {
  const [command, ...args] = pinned(cpu, argv)
  const startedAt = performance.now()
  const child = spawn(command, args, {
    cwd: root,
    // The caller's other variables are not passed on: a provider key or a shell setting could change the measurement.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const listening = new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new BenchError(`${name} did not listen within ${CHILD_START_TIMEOUT_MS / 1000} s:\n${output}`)),
      CHILD_START_TIMEOUT_MS,
    )
    const settle = (end, value) => {
      clearTimeout(timer)
      end(value)
    }
    let unread = ''
    child.stdout.on('data', (data) => {
      if (unread === undefined) return
      const lines = (unread + data).split('\n')
      unread = lines.pop()
      const line = lines.find((candidate) => candidate.includes('"msg":"listening"'))
      if (!line) return
      unread = undefined
      settle(resolve, { url: JSON.parse(line).url, afterMs: performance.now() - startedAt })
    })
    child.once('error', (error) => settle(reject, new BenchError(`${name} cannot be started: ${error.message}`)))
    child.once('close', (code) => settle(reject, new BenchError(`${name} exited with ${code}:\n${output}`)))
  })
  // If a child exits early, the bench must not crash. Awaiting `listening` still rejects.
  listening.catch(() => {})
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      output = (output + data).slice(-KEPT_OUTPUT_CHARS)
    })
  }
  const running = () => child.exitCode === null && child.signalCode === null && child.pid !== undefined
  return {
    name,
    pid: child.pid,
    startedAt,
    listening,
    output: () => output,
    /**
     * Sends SIGTERM and, after a timeout, SIGKILL. Resolves to the exit code, or to null if a signal ended the process.
     */
    async stop() {
      if (!running()) return child.exitCode
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), CHILD_STOP_TIMEOUT_MS)
      const code = await exited
      clearTimeout(timer)
      return code
    },
  }
}

/**
 * Runs a bench with a temporary directory and child processes. When the bench ends, even by Ctrl-C, stops the processes
 * and removes the directory.
 * @param {{dataDir: string | undefined}} options parent of the temporary directory; default os.tmpdir()
 * @param {(session: {dir: string, start: typeof startChild}) => Promise<T>} run
 * @template T
 */
export async function withSession({ dataDir = os.tmpdir() }, run) {
  mkdirSync(dataDir, { recursive: true })
  const dir = mkdtempSync(path.join(dataDir, 'aigw-bench-'))
  const children = []
  const start = (options) => {
    const child = startChild(options)
    children.push(child)
    return child
  }
  let interrupt
  const interrupted = new Promise((_, reject) => {
    interrupt = () => reject(new BenchError('interrupted'))
    process.once('SIGINT', interrupt).once('SIGTERM', interrupt)
  })
  try {
    return await Promise.race([run({ dir, start }), interrupted])
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
    for (const child of children.reverse()) await child.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}
