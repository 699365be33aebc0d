import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import { runProgram } from '../../src/cli/program.ts'
import { systemClock } from '../../src/shared/time.ts'
import { type CliOptions, captured } from './run-cli.ts'

export const KEYS = { enter: '\r', ctrlC: '\x03', ctrlD: '\x04', ctrlG: '\x07', tab: '\t', up: '\x1b[A' }
export const pasted = (text: string): string => `\x1b[200~${text}\x1b[201~`

/** A program on a terminal of its own, and somebody who types when he has read what he waits for. */
export function startOnTerminal(words: string[], options: CliOptions = {}) {
  const stdout = captured({ isTTY: true, columns: 80, rows: 24 })
  const stderr = captured({ isTTY: true })
  const rawModes: boolean[] = []
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode(on: boolean) {
      rawModes.push(on)
    },
  })
  const ended = runProgram(words, {
    stdin,
    stdout: stdout.stream,
    stderr: stderr.stream,
    env: { HOME: '/nonexistent', CI: '1', NO_COLOR: '1', ...options.env },
    clock: systemClock,
    signals: new EventEmitter(),
    signal: new AbortController().signal,
    ...options.io,
  })
  let read = 0
  /** Resolves when `text` was shown after what was waited for last; fails when the program ends without. */
  const shows = async (text: string): Promise<void> => {
    const found = new Promise<void>((resolve) => {
      const look = () => {
        const at = stdout.text().indexOf(text, read)
        if (at < 0) return
        read = at + text.length
        stdout.stream.off('drained', look)
        resolve()
      }
      stdout.stream.on('drained', look)
      look()
    })
    const over = ended.then((exitCode) => {
      if (stdout.text().indexOf(text, read - text.length) < 0)
        throw new Error(
          `ended with ${exitCode} before it showed ${JSON.stringify(text)}: ${stdout.text()}${stderr.text()}`,
        )
    })
    await Promise.race([found, over])
  }
  return {
    ended,
    shows,
    type: (text: string) => void stdin.write(text),
    hangUp: () => void stdin.end(),
    stdout: stdout.text,
    stderr: stderr.text,
    stderrStream: stderr.stream,
    /** Whether the terminal is as it was found. */
    isRaw: () => rawModes.at(-1) === true,
  }
}
