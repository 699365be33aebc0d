// Lets other modules call addresses of the configuration under the rules of webhooks.
import type { LookupFunction } from 'node:net'
import { lookupWith } from '../platform/network/names.ts'
import { readTarget, refuseAddresses, TargetRefused } from './target-address.ts'
import { addressesOf, type TargetGuard } from './target-guard.ts'

/** The rules of webhooks for other outgoing calls. */
export type CheckedTargets = {
  /** Checks the URL and all current addresses of its host. @throws TargetRefused, or an error of the resolver */
  check(url: string): Promise<void>
  /** Resolves the host again for the connection, and checks the addresses that are called. */
  lookup: LookupFunction
}

export function createCheckedTargets(guard: TargetGuard): CheckedTargets {
  return {
    async check(url) {
      try {
        await addressesOf(readTarget(url), guard)
      } catch (error) {
        if (!(error instanceof TargetRefused)) throw error
        throw new TargetRefused(`${error.message} List a private address under webhooks.allow.`)
      }
    },
    lookup: lookupWith(async (host) => {
      const addresses = await guard.resolve(host)
      refuseAddresses(addresses, guard)
      return addresses
    }),
  }
}
