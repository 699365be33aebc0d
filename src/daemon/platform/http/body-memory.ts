import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { GatewayError } from '../../../shared/errors.ts'
import { BODY_COPIES, BODY_MEMORY_BYTES } from '../../../shared/spec-limits.ts'

/** The first bytes of each body, up to this size, do not count towards the memory limit. */
export const FREE_BODY_BYTES = 65_536
/** The `Retry-After` value if no memory is free for a body. */
const MEMORY_RETRY_AFTER_SECONDS = 5

/** The uncounted memory per body: the maximum that a body of FREE_BODY_BYTES needs, regardless of its text. */
const FREE_BYTES = FREE_BODY_BYTES * BODY_COPIES.other

/**
 * Bounds the memory of all request bodies in one daemon: their bytes and the copies made of them (BODY_COPIES). A body
 * counts from its arrival until its request has ended. Small bodies are not counted, so they never wait for large ones.
 * A body of any size is accepted while it is the only counted body. All bodies of one tenant may use half of the
 * memory, so a tenant cannot starve the others.
 */
export class BodyMemory {
  #limitBytes: number
  readonly #tenants = new Map<string, number>()
  #heldBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Applies to bodies that arrive from now on. Memory that is already held stays held. */
  resize(limitBytes: number): void {
    this.#limitBytes = limitBytes
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  open(tenantId: string): BodyShare {
    return new BodyShare(this, tenantId)
  }

  /**
   * Changes a tenant's share from `countedBytes` by `bytes`. @throws OVERLOADED if all requests, or the requests of
   * this tenant, would exceed their limit
   */
  hold(tenantId: string, countedBytes: number, bytes: number): void {
    const ofTenant = this.#tenants.get(tenantId) ?? 0
    if (this.#heldBytes > countedBytes && this.#heldBytes + bytes > this.#limitBytes) throw full('')
    if (ofTenant > countedBytes && ofTenant + bytes > this.#limitBytes / 2) throw full(' of this tenant')
    this.#change(tenantId, bytes)
  }

  release(tenantId: string, bytes: number): void {
    this.#change(tenantId, -bytes)
  }

  #change(tenantId: string, bytes: number): void {
    this.#heldBytes += bytes
    const ofTenant = (this.#tenants.get(tenantId) ?? 0) + bytes
    if (ofTenant > 0) this.#tenants.set(tenantId, ofTenant)
    else this.#tenants.delete(tenantId)
  }
}

/** The memory that is reserved for one request's body. */
export class BodyShare {
  readonly #memory: BodyMemory
  readonly #tenantId: string
  #totalBytes = 0
  #countedBytes = 0

  constructor(memory: BodyMemory, tenantId: string) {
    this.#memory = memory
    this.#tenantId = tenantId
  }

  /**
   * Reserves `bytes` more memory. @throws OVERLOADED if all requests, or the requests of this tenant, would exceed
   * their limit
   */
  hold(bytes: number): void {
    this.#totalBytes += bytes
    const more = this.#totalBytes - FREE_BYTES - this.#countedBytes
    if (more <= 0) return
    this.#memory.hold(this.#tenantId, this.#countedBytes, more)
    this.#countedBytes += more
  }

  /** Releases the whole reservation. Safe to call again. */
  release(): void {
    if (this.#countedBytes > 0) this.#memory.release(this.#tenantId, this.#countedBytes)
    this.#totalBytes = 0
    this.#countedBytes = 0
  }
}

/** The default limit: BODY_MEMORY_BYTES.default, or half of the heap or of the machine's memory if that is less. */
export const defaultBodyMemory = (heapBytes = getHeapStatistics().heap_size_limit, machineBytes = machineMemory()) =>
  Math.min(BODY_MEMORY_BYTES.default, Math.floor(heapBytes / 2), Math.floor(machineBytes / 2))

/**
 * The memory limit of a container may be less than the machine's memory. Without a limit, some systems report 0 and
 * others a huge number.
 */
const machineMemory = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)

const full = (whose: string) =>
  new GatewayError('OVERLOADED', `Too many large requests${whose} are in memory. Retry in a moment.`, {
    retryAfterSeconds: MEMORY_RETRY_AFTER_SECONDS,
  })
