import { fstatSync } from 'node:fs'
import { MESSAGE_CONTENT_BYTES } from '../../../shared/spec-limits.ts'
import { usageError } from '../../errors.ts'
import { toUtf8 } from '../../input/text-input.ts'
import type { Io, Note } from '../../io.ts'

/** How long a pipe that stays silent is waited for when there is a prompt already. */
const PATIENCE_MS = 3_000

/** Whether stdin may hold text: a pipe, a file or a socket, but no terminal, no `/dev/null` and nothing closed. */
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
 * The text that was piped in, read to its end. With a prompt at hand a silent pipe is given up after 3 s with a note,
 * since programs like cron and ssh leave one open; without a prompt there is nothing to do but wait.
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
        finish(() => reject(usageError(`stdin holds more than the ${MESSAGE_CONTENT_BYTES} bytes a prompt may have`)))
      }
    }
    const onEnd = () => finish(() => resolve(false))
    const onError = (error: Error) => finish(() => reject(error))
    const stopped = () => finish(() => reject(signal.reason))
    const timer = hasPrompt ? clock.after(PATIENCE_MS, () => finish(() => resolve(true))) : undefined
    const alive = setInterval(() => {}, 2 ** 30)
    signal.addEventListener('abort', stopped, { once: true })
    stdin.on('data', onData).on('end', onEnd).on('close', onEnd).on('error', onError)
    if (signal.aborted) stopped()
  }).finally(() => leave(stdin))
  if (gaveUp) await note('note: nothing came on stdin for 3 s, going on without it (--no-stdin skips the wait)')
  return toUtf8(Buffer.concat(chunks), 'stdin')
}

/** A pipe that is still open must not keep the program from ending. */
function leave(stdin: Io['stdin']): void {
  stdin.pause()
  if ('destroy' in stdin && typeof stdin.destroy === 'function') stdin.destroy()
}
