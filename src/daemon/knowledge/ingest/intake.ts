import { Transform } from 'node:stream'
import { UPLOAD_BYTES_PER_SECOND } from '../../../shared/spec-limits.ts'

/** A stream that hands on what it gets, no faster than all streams of one intake may together. */
export type Intake = () => Transform

/** So far ahead of its pace may an intake be, so that what is small never waits and timers are few. */
const AHEAD_MS = 20

/**
 * Takes uploads at a pace. From a fast client they would keep the thread that answers chats busy to the full, and with more
 * memory in buffers than it clears away in passing. The time is the machine's own: this is about what it can do at once.
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
