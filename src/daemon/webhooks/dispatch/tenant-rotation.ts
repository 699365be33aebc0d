/** Those who wait for something, in the order of their turns: one of each tenant, then the next of each. */
export type TenantRotation<Waiting> = {
  add(tenantId: string, waiting: Waiting): void
  /** Takes the next out, of a tenant that may go. */
  take(mayGo: (tenantId: string) => boolean): Waiting | undefined
  /** Whether nobody waits. */
  readonly empty: boolean
}

export function createTenantRotation<Waiting>(): TenantRotation<Waiting> {
  // A map keeps the order in which its keys came, which is the order of the turns.
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
