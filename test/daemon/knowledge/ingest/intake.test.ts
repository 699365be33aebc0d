import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { createIntake } from '../../../../src/daemon/knowledge/ingest/intake.ts'

const MIB = 1_048_576
/** The data that an intake passes on before it waits. */
const AHEAD_MS = 20

async function send(stream: ReturnType<ReturnType<typeof createIntake>>, bytes: number): Promise<Buffer> {
  const received = buffer(stream)
  for (let sent = 0; sent < bytes; sent += 65_536) stream.write(Buffer.alloc(65_536, sent / 65_536))
  stream.end()
  return received
}

test('an upload is received completely, at the limited rate', async () => {
  const intake = createIntake(4 * MIB)
  const startedAt = performance.now()
  const received = await send(intake(), MIB)
  expect(performance.now() - startedAt).toBeGreaterThan(250 - AHEAD_MS - 20)
  expect(received.length).toBe(MIB)
  expect([received[0], received[65_536], received.at(-1)]).toEqual([0, 1, 15])
})

test('concurrent uploads share the rate', async () => {
  const intake = createIntake(8 * MIB)
  const startedAt = performance.now()
  await Promise.all([send(intake(), MIB), send(intake(), MIB)])
  expect(performance.now() - startedAt).toBeGreaterThan(250 - AHEAD_MS - 20)
})

test('small uploads pass at once', () => {
  const stream = createIntake(MIB)()
  stream.write('a question')
  expect(stream.read()?.toString()).toBe('a question')
})
