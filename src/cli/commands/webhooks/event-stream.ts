/** Follows the live events of the tenant. */
import { createParser } from 'eventsource-parser'
import { LISTEN_PING_MS } from '../../../shared/spec-limits.ts'
import type { EventFeedFrame } from '../../../shared/wire/event-feed.ts'
import { notAGateway } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { EXIT, isPassing } from '../../errors.ts'
import { pause } from '../../io.ts'

const FEED_PATH = '/api/admin/webhooks/recent-events'
const RECONNECT_MS = { first: 1_000, longest: 30_000 }
/** Three missed pings mean a dead connection, for instance after this machine slept. */
const SILENCE_MS = 3 * LISTEN_PING_MS
/**
 * After a reconnect, the gateway repeats the events of the last seconds. The client recognises these duplicates by
 * their ids.
 */
const CACHED_EVENTS = 10_000

export type ReceivedEvent = (EventFeedFrame & { type: 'event' })['data']['event']

/**
 * Yields the events of the tenant from now on, each once. After a disconnect, reconnects and continues at the same
 * position. `onReady` is called once. Throws an error if the first connection fails, or if the gateway later rejects
 * this key.
 */
export async function* listenToEvents(
  context: CliContext,
  { onReady }: { onReady(): Promise<void> },
): AsyncGenerator<ReceivedEvent> {
  const { io } = context
  const known = new Set<string>()
  let cursor: string | undefined
  let waitMs = RECONNECT_MS.first
  while (true) {
    try {
      for await (const { type, data } of readFeed(context, cursor)) {
        if (type === 'ready') {
          if (cursor === undefined) await onReady()
          else await context.note('note: connected again')
          waitMs = RECONNECT_MS.first
        } else if (!known.has(data.event.id)) {
          remember(known, data.event.id)
          yield data.event
        }
        cursor = data.cursor
      }
    } catch (error) {
      if (cursor === undefined || !isPassing(error)) throw error
    }
    await context.note(`note: the connection ended; retrying in ${waitMs / 1000} s`)
    await pause(waitMs, io)
    waitMs = Math.min(waitMs * 2, RECONNECT_MS.longest)
  }
}

function remember(known: Set<string>, id: string): void {
  known.add(id)
  if (known.size <= CACHED_EVENTS) return
  for (const oldest of known) return void known.delete(oldest)
}

/**
 * Yields the frames of one connection until it ends. Throws the matching error if the status is not 200. Throws an
 * error with exit code 8 if the connection breaks.
 */
async function* readFeed(context: CliContext, since: string | undefined): AsyncGenerator<EventFeedFrame> {
  const api = await context.api()
  const headers = { accept: 'text/event-stream' }
  const answer = await api.open({ method: 'GET', path: FEED_PATH, query: { since }, headers })
  const { status, requestId } = answer
  if (status !== 200) {
    throw api.toError({ status, requestId, raw: await api.read(answer), headers: answer.headers })
  }
  const noFeed = () => notAGateway(EXIT.error, `${api.baseUrl} did not answer with events`, { requestId })
  if (answer.headers['content-type']?.startsWith('text/event-stream') !== true) {
    answer.body.destroy()
    throw noFeed()
  }
  const frames: EventFeedFrame[] = []
  const parser = createParser({
    onEvent({ data }) {
      frames.push(parseFrame(data, noFeed))
    },
  })
  const decoder = new TextDecoder()
  const expectMore = () =>
    context.io.clock.after(SILENCE_MS, () => answer.body.destroy(new Error('the gateway was silent')))
  let waiting = expectMore()
  try {
    for await (const chunk of api.parts(answer, { bounded: false })) {
      // The timer stops while the client processes an event, because the timer measures only the gateway's silence.
      waiting.cancel()
      parser.feed(decoder.decode(chunk, { stream: true }))
      yield* frames.splice(0)
      waiting = expectMore()
    }
  } finally {
    waiting.cancel()
  }
}

function parseFrame(json: string, noFeed: () => Error): EventFeedFrame {
  try {
    const frame: EventFeedFrame = JSON.parse(json)
    if (typeof frame.data.cursor === 'string') return frame
  } catch {}
  throw noFeed()
}
