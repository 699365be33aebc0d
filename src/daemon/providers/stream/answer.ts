import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { PROVIDER_BODY_BYTES, PROVIDER_ERROR_BODY_BYTES, STREAM_END_GRACE_MS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { ChatPart } from '../provider.ts'
import { type AnswerAssembly, type AnswerFormat, assembleAnswer } from './assembly.ts'
import { statusError, unreadableError } from './failure.ts'
import { type Timeouts, watchSilence } from './silence.ts'
import { openUpstream, type Upstream, type UpstreamRequest } from './upstream.ts'

export type AnswerCall = {
  pool: Dispatcher
  clock: Clock
  request: UpstreamRequest
  format: AnswerFormat
  streamed: boolean
  timeouts: Timeouts
}

/**
 * Runs one provider call to its outcome, as `Provider.chat` promises it: nothing is yielded before the commit point,
 * and the last part is `end`, or a ProviderError is thrown. Giving up the iteration closes the connection.
 */
export async function* readAnswer(call: AnswerCall, signal: AbortSignal): AsyncGenerator<readonly ChatPart[]> {
  const upstream = openUpstream(call.pool, call.request, signal)
  const watch = watchSilence(call.clock, call.timeouts, call.streamed, (error) => upstream.cancel(error))
  let complete = false
  // The reader may stop at the part that ends the answer, so that is known before it is handed out.
  const noteEnd = (parts: readonly ChatPart[]) => {
    if (parts.at(-1)?.type === 'end') complete = true
    return parts
  }
  try {
    const { status, headers } = await upstream.head
    if (status !== 200) {
      // The status is known, so a body that breaks off only costs us the provider's code.
      const body = await readBody(upstream, PROVIDER_ERROR_BODY_BYTES).catch((error) => {
        if (signal.aborted) throw error
      })
      throw statusError(status, headers, body?.toString() ?? '', call.clock.now())
    }
    // Some servers answer a streamed request with one JSON body, an error above all.
    if (!call.streamed || isJson(headers)) {
      yield noteEnd(await readWhole(upstream, call.format))
      return
    }
    const assembly = assembleAnswer(call.format)
    while (assembly.state !== 'ended') {
      watch.waiting()
      const bytes = await nextBytes(upstream, assembly, signal)
      watch.heard()
      const parts = assembly.take(bytes)
      if (parts.length > 0) watch.committed()
      if (assembly.state === 'finishing') watch.finishing()
      if (parts.length > 0) yield noteEnd(parts)
    }
  } finally {
    watch.stop()
    if (complete) upstream.release(call.clock, STREAM_END_GRACE_MS)
    else upstream.cancel(GIVEN_UP)
  }
}

// One for all: an Error takes its stack when it is made, and this one is nobody's fault.
const GIVEN_UP = new Error('the answer is not read further')

/** The next read. Once the finish reason is here the answer is whole: any end of the connection is as good as a clean one. */
async function nextBytes(upstream: Upstream, assembly: AnswerAssembly, signal: AbortSignal): Promise<Buffer | null> {
  if (assembly.state === 'open') return upstream.next()
  try {
    return await upstream.next()
  } catch (error) {
    if (signal.aborted) throw error
    return null
  }
}

async function readWhole(upstream: Upstream, format: AnswerFormat): Promise<ChatPart[]> {
  const bytes = await readBody(upstream, PROVIDER_BODY_BYTES)
  if (!bytes) throw unreadableError(`an answer over ${PROVIDER_BODY_BYTES} bytes`)
  let body: unknown
  try {
    body = JSON.parse(bytes.toString())
  } catch (error) {
    throw unreadableError('an answer that is not JSON', error)
  }
  return format.decodeBody(body)
}

/** The whole body, or undefined when it is longer than `limit` bytes. */
async function readBody(upstream: Upstream, limit: number): Promise<Buffer | undefined> {
  const pieces: Buffer[] = []
  let length = 0
  for (let piece = await upstream.next(); piece; piece = await upstream.next()) {
    pieces.push(piece)
    length += piece.length
    if (length > limit) return undefined
  }
  return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)
}

const isJson = (headers: IncomingHttpHeaders) => /^\s*application\/(.+\+)?json\b/i.test(headers['content-type'] ?? '')
