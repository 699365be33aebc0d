import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { GatewayError } from '../../../shared/errors.ts'
import { newRequestId } from '../../../shared/ids.ts'
import { HEADER_BYTES } from '../../../shared/spec-limits.ts'
import { toErrorReply } from './error-response.ts'
import type { ErrorShape } from './route.ts'

/** Sends an error on a connection for which Node has no response object, and closes the connection. */
export function refuseOnSocket(socket: Duplex, error: GatewayError, nowMs: number, shape: ErrorShape = 'flat'): void {
  const requestId = newRequestId(nowMs)
  const { status, body } = toErrorReply(error, shape, { requestId }, () => {})
  const text = JSON.stringify(body)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
    `x-request-id: ${requestId}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`, () => socket.destroy())
}

/** Converts an error of Node's parser to the error for the client. */
export function connectionFault(error: NodeJS.ErrnoException): GatewayError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return new GatewayError('HEADERS_TOO_LARGE', `The headers may have at most ${HEADER_BYTES} bytes.`)
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new GatewayError('REQUEST_TIMEOUT', 'The request did not arrive in time. Send it again.')
    default:
      return new GatewayError('INVALID_HTTP', 'This is not a well-formed HTTP/1.1 request.')
  }
}
