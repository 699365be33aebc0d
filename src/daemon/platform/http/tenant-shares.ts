import { GatewayError } from '../../../shared/errors.ts'

const SHARE_RETRY_AFTER_SECONDS = 2

/** Counts the concurrent requests of each tenant, so that one tenant cannot occupy the whole daemon. */
export class TenantShares {
  readonly #running = new Map<string, number>()
  readonly #max: number

  /** @param max maximum number of concurrent requests per tenant */
  constructor(max: number) {
    this.#max = max
  }

  /** Call `leave` when the request ends. @throws OVERLOADED if the tenant has `max` requests */
  enter(tenantId: string): void {
    const running = this.#running.get(tenantId) ?? 0
    if (running >= this.#max) {
      throw new GatewayError(
        'OVERLOADED',
        `Too many requests: this tenant may run ${this.#max} at once, including requests that wait. Retry in a moment.`,
        { retryAfterSeconds: SHARE_RETRY_AFTER_SECONDS },
      )
    }
    this.#running.set(tenantId, running + 1)
  }

  leave(tenantId: string): void {
    const running = this.#running.get(tenantId) ?? 0
    if (running > 1) this.#running.set(tenantId, running - 1)
    else this.#running.delete(tenantId)
  }
}
