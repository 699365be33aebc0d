import { networkInterfaces } from 'node:os'
import { normalAddress, reachOfAddress } from '../../shared/address-reach.ts'

/**
 * Returns a function that tests whether this daemon listens on an address and port. The returned function uses the
 * addresses of this machine's network interfaces.
 * @param ownPort returns undefined before the daemon listens
 */
export const createSelfAddressCheck =
  (ownPort: () => number | undefined) =>
  (address: string, port: number): boolean =>
    port === ownPort() && (isThisMachine(address) || hasInterface(address))

const isThisMachine = (address: string): boolean =>
  reachOfAddress(address) === 'private' && /^(127\.|0\.|::1?$)/.test(normalAddress(address))

const hasInterface = (address: string): boolean =>
  Object.values(networkInterfaces()).some((entries) =>
    entries?.some((entry) => normalAddress(entry.address) === address),
  )
