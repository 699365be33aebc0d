// Limits and cleans what a receiver sends before undici reads it.
import type { Socket } from 'node:net'

/**
 * Maximum bytes read from a connection in one attempt, including headers, informational responses and chunk framing.
 */
const WEBHOOK_READ_BYTES = 65_536

export type AnswerGate = {
  /** Call it before each request: the next response belongs to that request. */
  begin(): void
}

const CONTINUE = Buffer.from('HTTP/1.1 100')
const HEAD_END = '\r\n\r\n'
const NOTHING = Buffer.alloc(0)

/**
 * Filters the bytes between a socket and undici. Call it before undici gets the socket.
 * - It closes a connection that sends more than WEBHOOK_READ_BYTES in an attempt. undici limits the head and the
 * attempt limits the body. Early hints, the reason phrase and chunk framing have no other limit.
 * - It removes each unsolicited `100 Continue`. A client must tolerate them (RFC 9110 §15.2); undici does not.
 */
export function gateAnswers(socket: Socket): AnswerGate {
  let readBefore = 0
  /** Whether the final response has not begun yet. Until that is known, received bytes are buffered. */
  let awaited = true
  let held: Buffer = NOTHING

  socket.on('readable', () => {
    if (socket.bytesRead - readBefore > WEBHOOK_READ_BYTES) {
      socket.destroy(new Error(`the response is larger than ${WEBHOOK_READ_BYTES / 1024} KiB`))
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

/** Whether these bytes are `100 Continue`, or a prefix of it. */
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
