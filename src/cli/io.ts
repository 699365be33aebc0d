import type { Clock } from '../shared/time.ts'

/** The parts of the process that commands use. Tests replace them. */
export type Io = {
  stdin: NodeJS.ReadableStream & { isTTY?: boolean; fd?: number; setRawMode?(on: boolean): unknown }
  stdout: NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number }
  stderr: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  env: Record<string, string | undefined>
  clock: Clock
  /** The signals that this process receives. A command may forward these signals. */
  signals: Signals
  /**
   * This signal is aborted by SIGINT, SIGTERM or a closed stdout. The abort reason states which of the three happened.
   */
  signal: AbortSignal
}

type Signals = {
  on(name: NodeJS.Signals, listener: (name: NodeJS.Signals) => void): unknown
  off(name: NodeJS.Signals, listener: (name: NodeJS.Signals) => void): unknown
}

/** Writes a note to stderr. The note is one line unless `lines` is set. Writes nothing with `-q`. */
export type Note = (text: string, options?: { lines: boolean }) => Promise<void>

/** Waits until `stream` has accepted `data`. Rejects with EPIPE if the read end is closed. */
export function writeTo(stream: NodeJS.WritableStream, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

/** Reads stdin to its end. Throws a usage error if the input exceeds `limit` bytes. */
export async function readStdin(io: Pick<Io, 'stdin' | 'signal'>, limit: number, what: string): Promise<Buffer> {
  const [{ addAbortSignal, Readable }, { usageError }] = await Promise.all([
    import('node:stream'),
    import('./errors.ts'),
  ])
  const stdin = io.stdin instanceof Readable ? addAbortSignal(io.signal, io.stdin) : io.stdin
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk)
    size += bytes.length
    if (size > limit) throw usageError(`${what} on stdin is longer than ${limit} bytes`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

/** Waits. If the program is stopped, rejects with the abort reason of the signal. */
export function pause(ms: number, { clock, signal }: Pick<Io, 'clock' | 'signal'>): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    // This timer keeps the process alive during the pause, because the clock's own timers do not.
    const alive = setInterval(() => {}, 2 ** 30)
    const finish = (settle: () => void) => () => {
      clearInterval(alive)
      timer.cancel()
      signal.removeEventListener('abort', stopped)
      settle()
    }
    const stopped = finish(() => reject(signal.reason))
    const timer = clock.after(ms, finish(resolve))
    signal.addEventListener('abort', stopped, { once: true })
  })
}
