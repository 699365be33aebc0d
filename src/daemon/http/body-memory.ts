import { GatewayError } from '../../shared/errors.ts'
import { FREE_BODY_BYTES, MEMORY_RETRY_AFTER_SECONDS } from '../../shared/spec-limits.ts'

/** What one request holds. */
export type BodyShare = {
  /** Holds so many bytes more. @throws OVERLOADED when they would exceed what all requests may hold together */
  hold(bytes: number): void
  /** Gives everything back. May be called again. */
  release(): void
}

/**
 * Bounds the bytes of request bodies that one daemon holds at once. A body counts as it arrives and until its request has
 * ended. Its first FREE_BODY_BYTES are not counted, so that small requests never wait for large ones; a body that is the only
 * one always fits.
 */
export class BodyMemory {
  readonly #limitBytes: number
  #heldBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  open(): BodyShare {
    let totalBytes = 0
    let countedBytes = 0
    return {
      hold: (bytes) => {
        totalBytes += bytes
        const more = Math.max(0, totalBytes - FREE_BODY_BYTES) - countedBytes
        const othersHold = this.#heldBytes > countedBytes
        if (more > 0 && othersHold && this.#heldBytes + more > this.#limitBytes) throw full()
        countedBytes += more
        this.#heldBytes += more
      },
      release: () => {
        this.#heldBytes -= countedBytes
        totalBytes = 0
        countedBytes = 0
      },
    }
  }
}

const full = () =>
  new GatewayError('OVERLOADED', 'Too many large requests are in memory; try again in a moment.', {
    retryAfterSeconds: MEMORY_RETRY_AFTER_SECONDS,
  })
