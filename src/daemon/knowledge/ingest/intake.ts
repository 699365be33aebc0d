import { Transform } from 'node:stream'

/** The maximum combined rate of all uploads to one daemon. */
const UPLOAD_BYTES_PER_SECOND = 67_108_864

/** Creates a pass-through stream. All streams of one intake share a rate limit. */
export type Intake = () => Transform

/**
 * How far an intake may be ahead of its rate before it waits. This tolerance lets small uploads pass without a wait and
 * saves timers.
 */
const AHEAD_MS = 20

/**
 * Limits the rate of uploads. Otherwise a fast client would keep the thread that serves chats busy, and fill buffers
 * faster than the garbage collector frees them. Uses real time instead of the daemon's `Clock`, because the limit
 * protects a real machine.
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
