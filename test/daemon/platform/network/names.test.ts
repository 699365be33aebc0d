import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { afterEach, expect, test } from 'vitest'
import { openNames } from '../../../../src/daemon/platform/network/names.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { turns } from '../../webhooks/dispatch-world.ts'

const A = 1
const AAAA = 28
const opened: { close(): void }[] = []

afterEach(() => {
  for (const one of opened.splice(0)) one.close()
})

/** A name server that responds to questions of these types with these address bytes, and drops all others. */
async function nameServer(answers: Record<number, number[]>): Promise<string> {
  const server = createSocket('udp4')
  server.on('message', (question, from) => {
    const end = question.indexOf(0, 12)
    const type = question.readUInt16BE(end + 1)
    const address = answers[type]
    if (!address) return
    const head = Buffer.from(question.subarray(0, end + 5))
    head.writeUInt16BE(0x8180, 2)
    head.writeUInt16BE(1, 6)
    head.writeUInt16BE(0, 10)
    const answer = Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 60, 0, address.length, ...address])
    server.send(Buffer.concat([head, answer]), from.port, from.address)
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  opened.push(server)
  return `127.0.0.1:${server.address().port}`
}

test.each([
  ['A', { [A]: [8, 8, 8, 8] }, ['8.8.8.8']],
  ['AAAA', { [AAAA]: [0x20, 1, 0x48, 0x60, ...Array(11).fill(0), 1] }, ['2001:4860::1']],
])('a name server that responds only for %s delays a lookup by 300 ms', async (_, answers, expected) => {
  const clock = createFakeClock()
  const names = openNames({ clock, servers: [await nameServer(answers)] })
  opened.push(names)
  const found = names.ofCaller('hook.example.com')
  while (!clock.dueIn(300)) await turns(1)
  clock.advance(299)
  expect(await Promise.race([found, turns(5)])).toBeUndefined()
  clock.advance(1)
  expect(await found).toEqual(expected)
})

test('a name server that responds for both families causes no delay', async () => {
  const clock = createFakeClock()
  const server = await nameServer({ [A]: [8, 8, 8, 8], [AAAA]: [0x20, 1, 0x48, 0x60, ...Array(11).fill(0), 1] })
  const names = openNames({ clock, servers: [server] })
  opened.push(names)
  expect([...(await names.ofCaller('hook.example.com'))].sort()).toEqual(['2001:4860::1', '8.8.8.8'])
  expect(clock.pending).toBe(0)
})
