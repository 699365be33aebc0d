import type { ChatPart, TokenUsage } from '../../models/provider.ts'
import type { ClientStream } from '../governed/client-stream.ts'
import type { Answer, AnswerFault, Finish, Rendered } from './answer-contract.ts'

/** Renders a stream in the format of a surface. Returns complete frames as text, and keeps state between calls. */
export type StreamWording = {
  /** Returns frames for these parts. Returns an empty text if the surface does not show these parts. */
  say(parts: readonly ChatPart[]): string
  /** Returns the final frames of a complete answer. If no part was shown yet, the opening frames come first. */
  end(finish: Finish, usage: TokenUsage): string
  /**
   * Returns the final frames of a broken answer. These frames must differ clearly from the end of a complete answer.
   */
  fail(fault: AnswerFault): string
}

/** Creates an answer that streams as it arrives. */
export function streamInWords(wording: StreamWording, stream: ClientStream): Answer {
  const close = (frames: string): Rendered => ({ contentType: stream.contentType, ...stream.close(frames) })
  return {
    add(parts) {
      const frames = wording.say(parts)
      return frames === '' || stream.send(frames)
    },
    drained: (signal) => stream.drained(signal),
    close: (finish, usage) => close(wording.end(finish, usage)),
    fail: (fault) => close(wording.fail(fault)),
    abandon: () => stream.abandon(),
    send() {
      stream.end()
      return undefined
    },
  }
}
