/** Reads a prompt from stdin. */
import { fstatSync } from 'node:fs'
import { MESSAGE_CONTENT_BYTES } from '../../../shared/spec-limits.ts'
import { usageError } from '../../errors.ts'
import { toUtf8 } from '../../input/text-input.ts'
import type { Io, Note } from '../../io.ts'

/** The maximum wait for the first byte of a pipe if the command line contains a prompt. */
const SILENCE_MS = 3_000

/** Whether stdin is a pipe, a file or a socket. A terminal, `/dev/null` and a closed stdin are not read. */
export function isStdinPiped({ isTTY, fd }: { isTTY?: boolean; fd?: number }): boolean {
  if (isTTY === true) return false
  if (fd === undefined) return true
  try {
    const stat = fstatSync(fd)
    return stat.isFIFO() || stat.isFile() || stat.isSocket()
  } catch {
    return false
  }
}

/**
 * Reads stdin to its end. If the command line contains a prompt, stops waiting for a silent pipe after 3 s. Programs
 * such as cron and ssh leave the pipe open. Without a prompt, waits for the end of the pipe.
 */
export async function readPiped(io: Io, note: Note, { hasPrompt }: { hasPrompt: boolean }): Promise<string> {
  const { stdin, clock, signal } = io
  const chunks: Buffer[] = []
  let size = 0
  const gaveUp = await new Promise<boolean>((resolve, reject) => {
    const finish = (settle: () => void) => {
      timer?.cancel()
      clearInterval(alive)
      signal.removeEventListener('abort', stopped)
      stdin.off('data', onData).off('end', onEnd).off('close', onEnd).off('error', onError)
      settle()
    }
    const onData = (chunk: Buffer | string) => {
      timer?.cancel()
      const bytes = Buffer.from(chunk)
      chunks.push(bytes)
      size += bytes.length
      if (size > MESSAGE_CONTENT_BYTES) {
        finish(() =>
          reject(usageError(`stdin has more than the ${MESSAGE_CONTENT_BYTES} bytes that a prompt may have`)),
        )
      }
    }
    const onEnd = () => finish(() => resolve(false))
    const onError = (error: Error) => finish(() => reject(error))
    const stopped = () => finish(() => reject(signal.reason))
    const timer = hasPrompt ? clock.after(SILENCE_MS, () => finish(() => resolve(true))) : undefined
    const alive = setInterval(() => {}, 2 ** 30)
    signal.addEventListener('abort', stopped, { once: true })
    stdin.on('data', onData).on('end', onEnd).on('close', onEnd).on('error', onError)
    if (signal.aborted) stopped()
  }).finally(() => close(stdin))
  if (gaveUp) await note('note: stdin was silent for 3 s; continuing without it (--no-stdin skips the wait)')
  return toUtf8(Buffer.concat(chunks), 'stdin')
}

/** Closes stdin, because an open pipe would keep the process alive. */
function close(stdin: Io['stdin']): void {
  stdin.pause()
  if ('destroy' in stdin && typeof stdin.destroy === 'function') stdin.destroy()
}
