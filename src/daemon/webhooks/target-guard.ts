import { normalAddress, reachOfAddress } from '../../shared/address-reach.ts'
import { GatewayError } from '../../shared/errors.ts'
import type { Clock } from '../../shared/time.ts'
import type { ResolveHost } from '../platform/network/name-cache.ts'
import {
  type AllowedPrivate,
  readTarget,
  refuseAddresses,
  refuseName,
  type Target,
  TargetRefused,
} from './target-address.ts'

/** The DNS timeout when an endpoint is created. */
const WEBHOOK_LOOKUP_MS = 2_000

/** The rules that decide which addresses may be called. */
export type TargetGuard = AllowedPrivate & {
  resolve: ResolveHost
  /**
   * Whether tenants see what private receivers respond. If not, a tenant cannot read pages of the operator's network
   * through the delivery log.
   */
  showPrivateBodies?: boolean | undefined
  /**
   * Whether the daemon itself listens at this address and port. If so, a delivery to this address would arrive at the
   * daemon as a request.
   */
  isOwn?(address: string, port: number): boolean
}

/**
 * Validates the URL of an endpoint. A name that currently has no address, or resolves too slowly, is still accepted,
 * because `addressesOf` resolves it again before each attempt.
 * @throws GatewayError VALIDATION_ERROR with `details.field` "url"
 */
export async function checkTarget(url: string, { guard, clock }: { guard: TargetGuard; clock: Clock }): Promise<void> {
  try {
    const target = readTarget(url)
    refuseNameOf(target, guard)
    const addresses = target.literal ? [target.literal] : await resolveInTime(target.host, guard, clock)
    refuseAll(target, addresses, guard)
  } catch (error) {
    if (!(error instanceof TargetRefused)) throw error
    throw new GatewayError('VALIDATION_ERROR', error.message, { details: { field: 'url', value: url }, cause: error })
  }
}

/**
 * Checks that each current address of the URL's host may be called. Returns these addresses in a stable order. Returns
 * a promise only if a DNS query is needed.
 * @throws TargetRefused, or an error of the resolver
 */
export function addressesOf(target: Target, guard: TargetGuard): readonly string[] | Promise<readonly string[]> {
  refuseNameOf(target, guard)
  if (target.literal === undefined) {
    return guard.resolve(target.host).then((addresses) => {
      if (addresses.length === 0) throw new Error('the name has no address')
      return refuseAll(target, addresses, guard)
    })
  }
  return refuseAll(target, [target.literal], guard)
}

/**
 * Rejects a socket unless its peer address is one of the addresses that were to be called.
 * @throws TargetRefused
 */
export function refuseOtherPeer(remote: string | undefined, dialled: readonly string[], guard: TargetGuard): void {
  if (remote === undefined) throw new TargetRefused('The connection has no remote address.')
  refuseAddresses([remote], guard)
  const peer = normalAddress(remote)
  if (!dialled.some((address) => normalAddress(address) === peer || isUnspecified(address)))
    throw new TargetRefused('The remote address of the connection differs from the validated one.')
}

/** Whether tenants may see the details of what happens at a receiver with these addresses. */
export const mayShowReceiver = (addresses: readonly string[], guard: TargetGuard): boolean =>
  guard.showPrivateBodies === true || addresses.every((address) => reachOfAddress(address) === 'public')

function refuseNameOf({ host, literal }: Target, guard: TargetGuard): void {
  if (literal === undefined) refuseName(host, guard)
}

function refuseAll(target: Target, addresses: readonly string[], guard: TargetGuard): readonly string[] {
  refuseAddresses(addresses, guard)
  if (addresses.some((address) => guard.isOwn?.(normalAddress(address), target.port)))
    throw new TargetRefused('The URL points to this gateway itself.')
  return addresses.length < 2 ? addresses : [...addresses].sort()
}

/** Connections to 0.0.0.0 and :: reach this machine, but the system reports a different peer address. */
const isUnspecified = (address: string): boolean => ['0.0.0.0', '::'].includes(normalAddress(address))

async function resolveInTime(host: string, guard: TargetGuard, clock: Clock): Promise<readonly string[]> {
  let giveUp: () => void = () => {}
  const tooLate = new Promise<readonly string[]>((resolve) => {
    giveUp = () => resolve([])
  })
  const timer = clock.after(WEBHOOK_LOOKUP_MS, giveUp)
  try {
    return await Promise.race([guard.resolve(host).catch(() => []), tooLate])
  } finally {
    timer.cancel()
  }
}
