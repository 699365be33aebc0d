import { createParser } from 'eventsource-parser'
import type { ChatFrame } from '../../../shared/wire/chat.ts'
import { brokenAnswer } from '../../api/http-errors.ts'
import { CliError, EXIT } from '../../errors.ts'

const DONE = '[DONE]'

export type ReceivedFrame = { frame: ChatFrame /** As it was sent. */; json: string }

/**
 * The frames of a streamed answer, as they come. Only a stream that ended with `[DONE]` ends this without an error:
 * one that just stops is incomplete, also on a clean close, and throws exit 8.
 */
export async function* readFrames(
  body: AsyncIterable<Uint8Array>,
  requestId: string | undefined,
): AsyncGenerator<ReceivedFrame> {
  const pending: string[] = []
  const parser = createParser({ onEvent: ({ data }) => void pending.push(data) })
  const decoder = new TextDecoder()
  let done = false

  function* take(): Generator<ReceivedFrame> {
    for (const json of pending.splice(0)) {
      if (json === DONE) done = true
      if (done) return
      yield { frame: parseFrame(json, requestId), json }
    }
  }

  try {
    for await (const chunk of body) {
      parser.feed(decoder.decode(chunk, { stream: true }))
      yield* take()
      if (done) return
    }
  } catch (error) {
    throw error instanceof CliError ? error : brokenAnswer(error, requestId)
  }
  // The last event may lack the empty line that would have ended it.
  parser.feed(`${decoder.decode()}\n\n`)
  yield* take()
  if (!done) throw incomplete('the stream ended before the answer was complete', requestId)
}

function parseFrame(json: string, requestId: string | undefined): ChatFrame {
  try {
    const frame: ChatFrame = JSON.parse(json)
    if (isWhole(frame)) return frame
  } catch {}
  throw incomplete('the stream holds something that is no frame', requestId)
}

/** Whether a frame has what is read of it; kinds that are not known here are passed on. */
function isWhole({ type, data }: ChatFrame): boolean {
  if (typeof data !== 'object' || data === null) return false
  if (type === 'metadata') return typeof data.metadata === 'object' && data.metadata !== null
  if (type === 'chunk') return data.choices.every(({ delta }) => typeof delta === 'object')
  return true
}

/** The answer broke off; what was printed so far is a part of it. */
export const incomplete = (message: string, requestId: string | undefined, code = 'ANSWER_INCOMPLETE'): CliError =>
  new CliError(EXIT.upstream, message, {
    code,
    requestId,
    retryable: true,
    hints: ['The text above, if any, is only a part of the answer.'],
  })
