import { Transform } from 'node:stream'

/** Maximum rate of all uploads of one daemon. */
const UPLOAD_BYTES_PER_SECOND = 67_108_864

/** A pass-through stream. All streams of one intake share a rate limit. */
export type Intake = () => Transform

/** An intake may be this far ahead of its rate, so that small uploads never wait and timers are few. */
const AHEAD_MS = 20

/**
 * Limits the rate of uploads. A fast client would otherwise keep the thread that serves chats busy, and fill more
 * buffers than the garbage collector frees. Uses the machine's real time, because the limit is about the machine's
 * capacity.
 */
export function createIntake(bytesPerSecond = UPLOAD_BYTES_PER_SECOND): Intake {
  let takenUntilMs = 0
  return () =>
    new Transform({
      transform(chunk: Buffer, _encoding, done) {
        const nowMs = performance.now()
        takenUntilMs = Math.max(takenUntilMs, nowMs) + (chunk.length * 1000) / bytesPerSecond
        const waitMs = takenUntilMs - nowMs - AHEAD_MS
        if (waitMs <= 0) done(null, chunk)
        else setTimeout(done, waitMs, null, chunk)
      },
    })
}
