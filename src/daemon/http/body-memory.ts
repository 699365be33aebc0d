import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { GatewayError } from '../../shared/errors.ts'
import {
  BODY_COPIES,
  BODY_MEMORY_BYTES,
  FREE_BODY_BYTES,
  MEMORY_RETRY_AFTER_SECONDS,
} from '../../shared/spec-limits.ts'

/** What one request holds. */
export type BodyShare = {
  /** Holds so many bytes of memory more. @throws OVERLOADED when all requests, or those of the tenant, would hold too much */
  hold(bytes: number): void
  /** Gives everything back. May be called again. */
  release(): void
}

/** What each body takes without being counted: a body of FREE_BODY_BYTES, whatever its text. */
const FREE_BYTES = FREE_BODY_BYTES * BODY_COPIES.other

/**
 * Bounds the memory that request bodies take in one daemon: their bytes and the copies made of them (BODY_COPIES). A body
 * counts from its arrival until its request has ended. Small requests are not counted, so that they never wait for large
 * ones; a body that is the only one always fits. Several of one tenant may take half, so that nobody can deny the others
 * theirs.
 */
export class BodyMemory {
  readonly #limitBytes: number
  readonly #tenants = new Map<string, number>()
  #heldBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  open(tenantId: string): BodyShare {
    let totalBytes = 0
    let countedBytes = 0
    return {
      hold: (bytes) => {
        totalBytes += bytes
        const more = Math.max(0, totalBytes - FREE_BYTES) - countedBytes
        if (more <= 0) return
        const ofTenant = this.#tenants.get(tenantId) ?? 0
        if (this.#heldBytes > countedBytes && this.#heldBytes + more > this.#limitBytes) throw full('')
        if (ofTenant > countedBytes && ofTenant + more > this.#limitBytes / 2) throw full(' of this tenant')
        countedBytes += more
        this.#change(tenantId, more)
      },
      release: () => {
        this.#change(tenantId, -countedBytes)
        totalBytes = 0
        countedBytes = 0
      },
    }
  }

  #change(tenantId: string, bytes: number): void {
    if (bytes === 0) return
    this.#heldBytes += bytes
    const ofTenant = (this.#tenants.get(tenantId) ?? 0) + bytes
    if (ofTenant > 0) this.#tenants.set(tenantId, ofTenant)
    else this.#tenants.delete(tenantId)
  }
}

/** BODY_MEMORY_BYTES.default, or half of what the heap or the machine has when that is less. */
export const defaultBodyMemory = (heapBytes = getHeapStatistics().heap_size_limit, machineBytes = machineMemory()) =>
  Math.min(BODY_MEMORY_BYTES.default, Math.floor(heapBytes / 2), Math.floor(machineBytes / 2))

/** A container may have less than the machine; without a limit, some systems say 0 and some a number beyond all memory. */
const machineMemory = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)

const full = (whose: string) =>
  new GatewayError('OVERLOADED', `Too many large requests${whose} are in memory; try again in a moment.`, {
    retryAfterSeconds: MEMORY_RETRY_AFTER_SECONDS,
  })
