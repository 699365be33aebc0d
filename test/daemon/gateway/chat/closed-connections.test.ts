import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../../../src/shared/time.ts'
import { chunk, completion, DONE, finish, head, LAST_CHUNK, STREAM_HEAD, word } from '../../../faults/plays.ts'
import { type Play, type RawUpstream, startRawUpstream } from '../../../faults/raw-upstream.ts'
import { type Gateway, startGateway, textOf, upstreamProvider } from '../../../harness.ts'
import { sharedResources } from '../../../shared-resources.ts'

// Servers that close a connection right after a response although the response promised keep-alive.

const TIMES = 100

let raw: RawUpstream
let gateway: Gateway

beforeAll(async () => {
  raw = await startRawUpstream({ clock: systemClock })
  gateway = await startGateway({ providers: [upstreamProvider('raw', `http://127.0.0.1:${raw.port}/v1`)] })
  sharedResources.add(gateway)
})
afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  await raw.close()
})

const wholeAnswer = (status: number, body: string) =>
  head(status, { 'content-type': 'application/json', 'content-length': String(body.length) }) + body
const failed = wholeAnswer(503, '{"error":{"message":"down"}}')
const whole = wholeAnswer(200, completion('fine'))
const streamed = STREAM_HEAD + chunk(word('fine') + finish('stop') + DONE) + LAST_CHUNK

/** Each sends the answer and closes the connection. */
const CLOSINGS: [string, (answer: string) => Play][] = [
  [
    'FIN directly behind the last byte',
    (answer) => (exchange) => {
      void exchange.send(answer)
      exchange.fin()
    },
  ],
  [
    'RST directly behind the last byte',
    (answer) => (exchange) => {
      void exchange.send(answer)
      exchange.reset()
    },
  ],
  [
    'FIN after a turn of the event loop',
    (answer) => (exchange) => {
      void exchange.send(answer)
      setImmediate(() => exchange.fin())
    },
  ],
]

describe.each(CLOSINGS)('a server that closes keep-alive connections (%s)', (_, closing) => {
  /** A chain whose first model fails. Its name is new each time, so that earlier failures do not skip it. */
  function chainOf(time: number, answer: string): string[] {
    raw.plays.set(`down-${time}`, closing(failed))
    raw.plays.set('up', closing(answer))
    return [`raw/down-${time}`, 'raw/up']
  }

  test('loses no call of a chain to its second model', async () => {
    const lost: unknown[] = []
    for (let time = 0; time < TIMES; time++) {
      const { status, body } = await gateway.chat({ prompt: 'hi', models: chainOf(time, whole) })
      const { attempts } = body.metadata?.failover ?? {}
      const isServed = status === 200 && attempts?.length === 2 && attempts[1]?.status === 'served'
      if (!isServed) lost.push(body.error ?? attempts)
    }
    expect(lost).toEqual([])
  })

  test('loses no stream of a chain to its second model', async () => {
    const lost: unknown[] = []
    for (let time = 0; time < TIMES; time++) {
      const { frames, done, text } = await gateway.stream({ prompt: 'hi', models: chainOf(time, streamed) })
      if (!done || textOf(frames) !== 'fine') lost.push(text)
    }
    expect(lost).toEqual([])
  })

  test('loses no call in a sequence of many', async () => {
    raw.plays.set('up', closing(whole))
    const lost: unknown[] = []
    for (let time = 0; time < TIMES; time++) {
      const { status, body } = await gateway.chat({ prompt: 'hi', model: 'raw/up' })
      if (status !== 200) lost.push(body)
    }
    expect(lost).toEqual([])
  })

  test('loses no call of many concurrent ones', async () => {
    raw.plays.set('up', closing(whole))
    for (let round = 0; round < TIMES / 10; round++) {
      const calls = Array.from({ length: 10 }, () => gateway.chat({ prompt: 'hi', model: 'raw/up' }))
      const statuses = (await Promise.all(calls)).map(({ status }) => status)
      expect(statuses).toEqual(Array(10).fill(200))
    }
  })
})
