import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'

const MB = 1024 * 1024
const PIECE = Buffer.alloc(64 * 1024, ' ')
// The clock stands still, so only the number of read bytes can end these connections.
const gateway = sharedGateway({ clock: createFakeClock() })

/** Uploads until the other side stops reading. */
function upload(key: string): Promise<{ answer: string; sentBytes: number }> {
  const { hostname, port } = new URL(gateway.current.url)
  return new Promise((resolve) => {
    let answer = ''
    let left = 40 * MB
    const socket = connect({ host: hostname, port: Number(port) })
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${left}\r\n\r\n`,
    )
    const send = () => {
      while (left > 0 && !socket.destroyed) {
        left -= PIECE.length
        if (!socket.write(PIECE)) return
      }
    }
    socket.on('drain', send).on('error', () => undefined)
    socket.on('data', (data) => {
      answer += data
    })
    socket.on('close', () => resolve({ answer, sentBytes: 40 * MB - left }))
    send()
  })
}

test('an unauthenticated client gets the response, and must stop sending', async () => {
  const { answer, sentBytes } = await upload('sk-wrong')
  expect(answer).toMatch(/^HTTP\/1.1 401 /)
  expect(sentBytes).toBeLessThan(30 * MB)
})

test('a body that is too large is read completely from a known caller, so that it gets the response', async () => {
  const { answer, sentBytes } = await upload(gateway.current.adminKey)
  expect(answer).toMatch(/^HTTP\/1.1 413 /)
  expect(sentBytes).toBe(40 * MB)
})
