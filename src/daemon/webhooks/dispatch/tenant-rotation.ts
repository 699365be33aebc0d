/** A round-robin queue over tenants: each turn takes one entry of the next tenant. */
export type TenantRotation<Waiting> = {
  add(tenantId: string, waiting: Waiting): void
  /** Removes and returns the next entry whose tenant passes `mayGo`. */
  take(mayGo: (tenantId: string) => boolean): Waiting | undefined
  /** Whether the queue is empty. */
  readonly empty: boolean
}

export function createTenantRotation<Waiting>(): TenantRotation<Waiting> {
  // A map iterates in insertion order. This is also the order of the tenants' turns.
  const byTenant = new Map<string, Waiting[]>()

  return {
    add(tenantId, waiting) {
      const others = byTenant.get(tenantId)
      if (others) others.push(waiting)
      else byTenant.set(tenantId, [waiting])
    },
    take(mayGo) {
      for (const [tenantId, waiting] of byTenant) {
        if (!mayGo(tenantId)) continue
        const first = waiting.shift()
        byTenant.delete(tenantId)
        if (waiting.length > 0) byTenant.set(tenantId, waiting)
        return first
      }
      return undefined
    },
    get empty() {
      return byTenant.size === 0
    },
  }
}
