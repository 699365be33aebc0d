import { EventEmitter } from 'node:events'
import { clearLine, cursorTo, type Direction, moveCursor } from 'node:readline'
import { PassThrough, Writable } from 'node:stream'
import type { Io } from '../../src/cli/io.ts'
import { runProgram } from '../../src/cli/program.ts'
import { systemClock } from '../../src/shared/time.ts'
import { secretWatch } from '../secret-watch.ts'

export type CliResult = { exitCode: number; stdout: string; stderr: string }

export type CliOptions = {
  env?: Record<string, string>
  /** Which streams are terminals. */
  terminal?: { stdin?: boolean; stdout?: boolean; stderr?: boolean }
  stdin?: string | Buffer
  columns?: number
  rows?: number
  io?: Partial<Io>
}

/** A writable that remembers and emits `drained` after each write; `isTTY` and size make it a terminal. */
export function captured({ isTTY = false, columns = 80, rows = 24 } = {}) {
  const chunks: Buffer[] = []
  const stream: Writable = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(Buffer.from(chunk))
      done()
      stream.emit('drained')
    },
  })
  // What a terminal can do and a plain stream cannot; a spinner needs it.
  const cursor = {
    cursorTo: (x: number) => cursorTo(stream, x),
    moveCursor: (dx: number, dy: number) => moveCursor(stream, dx, dy),
    clearLine: (direction: Direction) => clearLine(stream, direction),
  }
  return {
    stream: Object.assign(stream, { isTTY, columns, rows }, isTTY ? cursor : {}),
    text: () => Buffer.concat(chunks).toString(),
  }
}

/** Runs the program in this process, with streams that claim to be terminals where a test needs that. */
export async function runCli(words: string[], options: CliOptions = {}): Promise<CliResult> {
  const { terminal = {}, columns = 80, rows = 24 } = options
  const stdout = captured({ isTTY: terminal.stdout === true, columns, rows })
  const stderr = captured({ isTTY: terminal.stderr === true })
  const stdin = Object.assign(new PassThrough(), { isTTY: terminal.stdin === true })
  stdin.end(options.stdin ?? '')
  const exitCode = await runProgram(words, {
    stdin,
    stdout: stdout.stream,
    stderr: stderr.stream,
    env: { HOME: '/nonexistent', ...options.env },
    clock: systemClock,
    signals: new EventEmitter(),
    signal: new AbortController().signal,
    ...options.io,
  })
  if (options.env?.AIGW_API_KEY !== undefined) secretWatch.addSecret('an API key', options.env.AIGW_API_KEY)
  secretWatch.record(`stderr of ${words.slice(0, 2).join(' ')}`, stderr.text(), { mayContainText: true })
  return { exitCode, stdout: stdout.text(), stderr: stderr.text() }
}
