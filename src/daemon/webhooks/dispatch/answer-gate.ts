import type { Socket } from 'node:net'
import { WEBHOOK_READ_BYTES } from '../../../shared/spec-limits.ts'

export type AnswerGate = {
  /** The next answer that comes is one to a new request. */
  begin(): void
}

const CONTINUE = Buffer.from('HTTP/1.1 100')
const HEAD_END = '\r\n\r\n'
const NOTHING = Buffer.alloc(0)

/**
 * Stands between a socket and undici, which reads it. Ends a connection that sends more than WEBHOOK_READ_BYTES in an attempt:
 * undici limits the head and the attempt the body, but hints, a reason phrase or what surrounds the chunks may go on for ever.
 * And takes out every `100 Continue` that nobody asked for, which a client must put up with (RFC 9110 §15.2) and undici does
 * not. To be called before undici gets the socket.
 */
export function gateAnswers(socket: Socket): AnswerGate {
  let readBefore = 0
  /** Whether the answer itself has not begun yet; what came so far is held until that is known. */
  let awaited = true
  let held: Buffer = NOTHING

  socket.on('readable', () => {
    if (socket.bytesRead - readBefore > WEBHOOK_READ_BYTES) {
      socket.destroy(new Error(`the answer goes on beyond ${WEBHOOK_READ_BYTES / 1024} KiB`))
      return
    }
    const chunk: Buffer | null = awaited ? socket.read() : null
    if (chunk === null) return
    held = withoutContinue(held.length === 0 ? chunk : Buffer.concat([held, chunk]))
    if (held.length === 0 || mayBeContinue(held)) return
    awaited = false
    socket.unshift(held)
    held = NOTHING
  })

  return {
    begin() {
      readBefore = socket.bytesRead
      awaited = true
      held = NOTHING
    },
  }
}

/** Whether this is one, as far as it goes. */
const mayBeContinue = (bytes: Buffer): boolean => {
  const length = Math.min(bytes.length, CONTINUE.length)
  return bytes.compare(CONTINUE, 0, length, 0, length) === 0
}

function withoutContinue(bytes: Buffer): Buffer {
  let rest = bytes
  while (rest.length >= CONTINUE.length && mayBeContinue(rest)) {
    const end = rest.indexOf(HEAD_END)
    if (end < 0) break
    rest = rest.subarray(end + HEAD_END.length)
  }
  return rest
}
