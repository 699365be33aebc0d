/** Parses the frames of a streamed answer. */
import { createParser } from 'eventsource-parser'
import type { ChatFrame } from '../../../shared/wire/chat.ts'
import { logHint } from '../../api/failed-models.ts'
import { brokenAnswer } from '../../api/http-errors.ts'
import type { CliCode } from '../../error-codes.ts'
import { CliError, EXIT } from '../../errors.ts'

const DONE = '[DONE]'

export type ReceivedFrame = { frame: ChatFrame /** Unchanged. */; json: string }

/**
 * Yields the frames of a streamed answer. Throws an error with exit code 8 if the stream ends without `[DONE]`, even if
 * the connection was closed cleanly.
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
  // The empty line after the last event may be missing.
  parser.feed(`${decoder.decode()}\n\n`)
  yield* take()
  if (!done) throw incomplete('the stream ended before the answer was complete', requestId)
}

function parseFrame(json: string, requestId: string | undefined): ChatFrame {
  try {
    const frame: ChatFrame = JSON.parse(json)
    if (isWhole(frame)) return frame
  } catch {}
  throw incomplete('the stream contains an invalid frame', requestId)
}

/** Whether a frame has the members that the client reads. Frames of unknown types are passed on. */
function isWhole({ type, data }: ChatFrame): boolean {
  if (typeof data !== 'object' || data === null) return false
  if (type === 'metadata') return typeof data.metadata === 'object' && data.metadata !== null
  if (type === 'chunk') return data.choices.every(({ delta }) => typeof delta === 'object')
  return true
}

/** Returns the error for a truncated answer. The text printed so far is incomplete. */
export const incomplete = (
  message: string,
  requestId: string | undefined,
  code: CliCode = 'ANSWER_INCOMPLETE',
): CliError =>
  new CliError(EXIT.upstream, message, {
    code,
    requestId,
    retryable: true,
    hints: ['The text above, if any, is only a part of the answer.', ...logHint(requestId)],
  })
