import { createHash, type Hash, hash } from 'node:crypto'
import type { ChatPart, TokenUsage } from '../../models/provider.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import type { EventStream } from '../../platform/http/sse.ts'
import type { Answer, AnswerFault, Finish, Rendered } from './answer-contract.ts'

/**
 * Maximum backlog for a client whose response is stored for replay. The limit prevents replays from waiting for a slow
 * client.
 */
const IDEMPOTENCY_BACKLOG_BYTES = 1_048_576

/** Renders a stream in the format of a surface. Returns complete frames as text, and keeps state between calls. */
export type StreamWording = {
  /** Set unless the frames are server-sent events. */
  contentType?: string
  /** Returns frames for these parts. Returns an empty text if the surface does not show these parts. */
  say(parts: readonly ChatPart[]): string
  /** Returns the final frames of a complete answer. If no part was shown yet, the opening frames come first. */
  end(finish: Finish, usage: TokenUsage): string
  /**
   * Returns the final frames of a broken answer. These frames must differ clearly from the end of a complete answer.
   */
  fail(fault: AnswerFault): string
}

/** Creates an answer that streams as it arrives. @param keep whether to keep the transcript for a replay */
export function streamInWords(wording: StreamWording, context: RequestContext, keep: boolean): Answer {
  let stream: EventStream | undefined
  let transcript = ''
  let tail = ''
  const { contentType } = wording
  const headers = contentType === undefined ? undefined : { 'content-type': contentType }
  const left = createTextHash()

  function close(frames: string): Rendered {
    tail = frames
    left.add(frames)
    return {
      contentType: contentType ?? 'text/event-stream; charset=utf-8',
      body: transcript + frames,
      sha256: left.end(),
    }
  }

  return {
    add(parts) {
      const frames = wording.say(parts)
      if (frames === '') return true
      stream ??= context.openStream(headers)
      left.add(frames)
      if (!keep) return stream.write(frames)
      transcript += frames
      // Backpressure is not applied, because other requests may wait for this answer. If a client's backlog becomes too
      // large, the client is disconnected and can retry to get the answer.
      if (context.response.writableLength > IDEMPOTENCY_BACKLOG_BYTES) context.response.destroy()
      else stream.write(frames)
      return true
    },
    drained: (signal) => stream?.drained(signal) ?? Promise.resolve(),
    close: (finish, usage) => close(wording.end(finish, usage)),
    fail: (fault) => close(wording.fail(fault)),
    abandon: () => (stream ? left.end() : null),
    send() {
      stream ??= context.openStream(headers)
      stream.end(tail)
      return undefined
    },
  }
}

/**
 * Number of characters that are buffered before hashing. Hashing each frame separately takes several times as long. A
 * larger buffer would cost memory for each open stream (measured: 3 KiB at 4,096).
 */
const HASHED_CHARS = 1_024

/** Computes the SHA-256 of a text that arrives in parts, as UTF-8. */
function createTextHash(): { add(text: string): void; end(): string } {
  let waiting = ''
  let hasher: Hash | undefined
  return {
    add(text) {
      waiting += text
      if (waiting.length < HASHED_CHARS) return
      hasher ??= createHash('sha256')
      hasher.update(waiting)
      waiting = ''
    },
    // Hashes a copy, because the answer is ended a second time if the commit fails.
    end: () => (hasher ? hasher.copy().update(waiting).digest('hex') : hash('sha256', waiting, 'hex')),
  }
}
