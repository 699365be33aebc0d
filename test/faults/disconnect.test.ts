import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deferred } from '../deferred.ts'
import { createFakeClock } from '../fake-clock.ts'
import { type Gateway, startGateway, upstreamProvider } from '../harness.ts'
import { sharedResources } from '../shared-resources.ts'
import { advanceUntil, watched } from '../watched-clock.ts'
import { completion, head, STREAM_HEAD, word } from './plays.ts'
import { type RawExchange, type RawUpstream, startRawUpstream } from './raw-upstream.ts'

/** Number of concurrent clients that disconnect, and number of rounds. */
const CLIENTS = 10
const ROUNDS = 5

const words = word('some words. ').repeat(20)
const body = completion('some words. '.repeat(20))
const STREAM = `${STREAM_HEAD}${words.length.toString(16)}\r\n${words}`
const FIRST_WORD_BYTES = STREAM.indexOf('\n\n', STREAM_HEAD.length) + 2
const WHOLE = head(200, { 'content-type': 'application/json', 'content-length': String(body.length) }) + body

/** Time that a stopping daemon waits for idle client connections. */
const CUT_MS = 1_000
/** The clock stands still until the daemon stops. So no timeout can close a call; only a client disconnect can. */
const clock = watched(createFakeClock())

let gateway: Gateway
let raw: RawUpstream
let asked = 0

beforeAll(async () => {
  raw = await startRawUpstream({ clock })
  gateway = await startGateway({
    clock,
    drainTimeoutMs: 10 * CUT_MS,
    providers: [upstreamProvider('raw', `http://127.0.0.1:${raw.port}/v1`)],
  })
  sharedResources.add(gateway)
})
afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  await raw.close()
})

/** A model that sends these bytes and then nothing more. `silent` resolves with the exchange at that point. */
function modelThatSends(bytes: string): { id: string; silent: Promise<RawExchange> } {
  const name = `left-${asked++}`
  const silent = deferred<RawExchange>()
  raw.plays.set(name, async (exchange) => {
    if (bytes !== '') await exchange.send(bytes)
    silent.resolve(exchange)
  })
  return { id: `raw/${name}`, silent: silent.promise }
}

/** Starts a stream and disconnects after its first text, or without any text once the upstream is silent. */
async function leaveStream(sentBytes: number): Promise<{ model: string; rows: number }> {
  const { id: model, silent } = modelThatSends(STREAM.slice(0, sentBytes))
  const leave = new AbortController()
  const opening = gateway.openStream({ prompt: 'hi', model }, { signal: leave.signal })
  const hearsWords = sentBytes >= FIRST_WORD_BYTES
  const refused = hearsWords ? undefined : expect(opening).rejects.toThrow()
  const exchange = await silent
  if (hearsWords) await (await opening).next()
  leave.abort()
  await exchange.closed()
  await refused
  return { model, rows: hearsWords ? 1 : 0 }
}

/** Disconnects while the upstream has not completed a whole answer. */
async function leaveWhole(sentBytes: number): Promise<{ model: string; rows: number }> {
  const { id: model, silent } = modelThatSends(WHOLE.slice(0, sentBytes))
  const leave = new AbortController()
  const answer = expect(gateway.chat({ prompt: 'hi', model }, { signal: leave.signal })).rejects.toThrow()
  const exchange = await silent
  leave.abort()
  await exchange.closed()
  await answer
  return { model, rows: 0 }
}

test.each([
  ['a stream', 'once where a word had left', leaveStream, STREAM.length],
  ['a whole answer', 'nothing, as nothing had left', leaveWhole, WHOLE.length - 1],
] as const)(
  'a client that disconnects %s at any byte has its call aborted and is billed %s',
  async (_what, _bill, leave, bytes) => {
    const points = fc.array(fc.nat({ max: bytes }), { minLength: CLIENTS, maxLength: CLIENTS })
    await fc.assert(
      fc.asyncProperty(points, async (sent) => {
        const left = await Promise.all(sent.map(leave))
        // A daemon commits open requests before it stops.
        await advanceUntil(gateway.restart(), clock, CUT_MS)
        const usage = await gateway.usage()
        for (const { model, rows } of left) {
          const billed = usage.filter(({ served_model: served }) => served === model)
          expect(billed.map(({ outcome }) => outcome)).toEqual(Array(rows).fill('aborted'))
        }
        await raw.allClosed()
      }),
      { numRuns: ROUNDS, endOnFailure: true },
    )
  },
)
