// Limits and filters the bytes from a receiver before undici reads them.
import type { Socket } from 'node:net'

/**
 * Maximum number of bytes read from a connection in one attempt, including headers, informational responses and chunk
 * framing.
 */
const WEBHOOK_READ_BYTES = 65_536

export type AnswerGate = {
  /** Call this before each request. The next response then counts as the response to this request. */
  begin(): void
}

const CONTINUE = Buffer.from('HTTP/1.1 100')
const HEAD_END = '\r\n\r\n'
const NOTHING = Buffer.alloc(0)

/**
 * Filters the bytes between a socket and undici. Call this function before undici receives the socket.
 * - Closes a connection that sends more than WEBHOOK_READ_BYTES in one attempt. undici limits the head, and `Attempt`
 *   limits the body. Early hints, the reason phrase and chunk framing have no other limit.
 * - Removes each unsolicited `100 Continue` response. A client must ignore it (RFC 9110 §15.2), but undici does not.
 */
export function gateAnswers(socket: Socket): AnswerGate {
  let readBefore = 0
  /**
   * True until the final response begins. Received bytes are buffered while they may still be part of a `100 Continue`
   * response.
   */
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

/** Whether these bytes are the start of a `100 Continue` response. */
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
