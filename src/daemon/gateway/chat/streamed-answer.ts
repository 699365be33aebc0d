import { createHash, type Hash, hash } from 'node:crypto'
import { IDEMPOTENCY_BACKLOG_BYTES } from '../../../shared/spec-limits.ts'
import type { ChatPart, TokenUsage } from '../../models/provider.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import type { EventStream } from '../../platform/http/sse.ts'
import type { Answer, AnswerFault, Finish, Rendered } from './answer-contract.ts'

/** How a surface words a stream: it only makes text, of whole frames, and remembers what it has said. */
export type StreamWording = {
  /** Frames for these parts; empty when they are not shown. */
  say(parts: readonly ChatPart[]): string
  /** The end of a good answer, with its beginning when nothing was said. */
  end(finish: Finish, usage: TokenUsage): string
  /** The end of an answer that broke, which no client may take for a whole one. */
  fail(fault: AnswerFault): string
}

/** An answer that leaves as it comes, in these words. @param keep whether it will be wanted again, as a whole. */
export function streamInWords(wording: StreamWording, context: RequestContext, keep: boolean): Answer {
  let stream: EventStream | undefined
  let transcript = ''
  let tail = ''
  const left = createTextHash()

  function close(frames: string): Rendered {
    tail = frames
    left.add(frames)
    return { contentType: 'text/event-stream; charset=utf-8', body: transcript + frames, sha256: left.end() }
  }

  return {
    add(parts) {
      const frames = wording.say(parts)
      if (frames === '') return true
      stream ??= context.openStream()
      left.add(frames)
      if (!keep) return stream.write(frames)
      transcript += frames
      // Others may wait for this answer, so it waits for nobody: a client this far behind is cut, and gets it by asking again.
      if (context.response.writableLength > IDEMPOTENCY_BACKLOG_BYTES) context.response.destroy()
      else stream.write(frames)
      return true
    },
    drained: (signal) => stream?.drained(signal) ?? Promise.resolve(),
    close: (finish, usage) => close(wording.end(finish, usage)),
    fail: (fault) => close(wording.fail(fault)),
    abandon: () => (stream ? left.end() : null),
    send() {
      stream ??= context.openStream()
      stream.end(tail)
      return undefined
    },
  }
}

/**
 * So much text waits to be hashed together: for each frame by itself, hashing would cost several times as much. Frames are kept
 * whole until then, and in many pieces, so more would show in the memory of an open stream (measured: 3 KiB at 4,096).
 */
const HASHED_CHARS = 1_024

/** SHA-256 of a text in pieces, as UTF-8. */
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
    // A copy: an end that could not be sent is followed by another.
    end: () => (hasher ? hasher.copy().update(waiting).digest('hex') : hash('sha256', waiting, 'hex')),
  }
}
