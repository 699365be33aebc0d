// Runs terminal agents without a person: one program for each turn, in an empty home directory.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const KEPT_OUTPUT_CHARS = 20_000
/** How long an agent may take to end after SIGINT. */
const STOP_MS = 5_000

/** The path of a program that clients/package.json pins. */
export const programOf = (name) => path.join(import.meta.dirname, '../node_modules', name)

/** Writes a file of the agent's home or working directory, and returns its path. */
export function write(ctx, name, content) {
  const file = path.join(ctx.scratch, name)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content))
  return file
}

/**
 * Runs one turn of an agent that prints JSON lines.
 * @param {object} ctx
 * @param {{program: string, args: string[], env: Record<string, string>, input: string}} command `input` is its stdin
 * @param {(event: object, interrupt: (afterMs?: number) => void) => void} [onEvent] is called with each line
 * @returns {Promise<{code: number | null, events: object[], stdout: string, stderr: string, isInterrupted: boolean}>}
 */
export async function runAgent(ctx, { program, args, env, input }, onEvent = () => {}) {
  const work = path.join(ctx.scratch, 'work')
  const home = path.join(ctx.scratch, 'home')
  for (const directory of [work, home]) if (!existsSync(directory)) mkdirSync(directory)
  const child = spawn(program, args, {
    cwd: work,
    env: {
      PATH: process.env.PATH,
      HOME: home,
      TMPDIR: process.env.TMPDIR,
      NO_COLOR: '1',
      TERM: 'xterm-256color',
      ...env,
    },
    // Agents start processes of their own. They must not survive the agent.
    detached: true,
  })
  const seen = { code: null, events: [], stdout: '', stderr: '', isInterrupted: false }
  const signal = (name) => {
    try {
      process.kill(-child.pid, name)
    } catch (error) {
      if (error.code !== 'ESRCH') throw error
    }
  }
  const timers = []
  const interrupt = (afterMs = 0) => {
    if (seen.isInterrupted) return
    seen.isInterrupted = true
    timers.push(setTimeout(() => signal('SIGINT'), afterMs))
    timers.push(setTimeout(() => signal('SIGKILL'), afterMs + STOP_MS))
  }
  const kill = () => signal('SIGKILL')
  ctx.signal.addEventListener('abort', kill)
  let unread = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    seen.stdout = (seen.stdout + text).slice(-KEPT_OUTPUT_CHARS)
    const lines = (unread + text).split('\n')
    unread = lines.pop()
    for (const line of lines) read(line)
  })
  function read(line) {
    if (!line.startsWith('{')) return
    const event = JSON.parse(line)
    seen.events.push(event)
    onEvent(event, interrupt)
  }
  child.stderr.setEncoding('utf8').on('data', (text) => {
    seen.stderr = (seen.stderr + text).slice(-KEPT_OUTPUT_CHARS)
  })
  // An agent may end before it has read its input.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  try {
    seen.code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve))
    if (unread.endsWith('}')) read(unread)
    return seen
  } finally {
    for (const timer of timers) clearTimeout(timer)
    ctx.signal.removeEventListener('abort', kill)
    kill()
  }
}

/** The message of an agent that reported no answer. */
export const failureOf = ({ code, stdout, stderr }) => `exit code ${code}: ${(stderr + stdout).slice(-500)}`
