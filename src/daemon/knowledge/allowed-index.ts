import { allowsIndex } from '../../shared/allowlists.ts'
import { GatewayError } from '../../shared/errors.ts'
import type { Caller } from '../http/caller.ts'

/** @throws INSUFFICIENT_PERMISSIONS for a name outside the key's list, whether there is such an index or not */
export function requireAllowedIndex({ settings }: Caller, name: string): void {
  if (allowsIndex(settings.allowedIndexes, name)) return
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    'This key may not use an index of this name; GET /indexes lists those it may.',
  )
}
