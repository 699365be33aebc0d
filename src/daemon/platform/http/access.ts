import { GatewayError } from '../../../shared/errors.ts'
import { excessOf, grantableBy, mayUse, type Rights } from '../../../shared/permissions.ts'
import type { Caller } from './caller.ts'
import type { Access, Method } from './route.ts'

/** Checks that the caller is allowed to call a route with this access. @throws INSUFFICIENT_PERMISSIONS */
export function requireAccess(caller: Caller, access: Access, method: Method): void {
  if (access === 'none' || access === 'key') return
  if (access === 'operator') {
    if (caller.isOperator) return
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'This request requires the operator key of this installation.')
  }
  const level = method === 'GET' ? 'reader' : 'admin'
  if (mayUse(caller.rights, access, level)) return
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    `This request requires a key with administrator privileges: "${access}" at level "${level}".`,
  )
}

/**
 * Checks that a caller has all rights that the caller grants, and all rights of the changed users and roles.
 * @param subject the holder of the rights, as the beginning of a sentence: `The role "ops"`.
 * @param hint advice for the caller, as a sentence.
 * @throws INSUFFICIENT_PERMISSIONS, which lists every right in `granted` that `own` lacks.
 */
export function requireCovered(
  own: Rights,
  granted: Rights,
  subject: string,
  hint = 'Omit these rights, or use a key that has them.',
): void {
  const beyond = excessOf(grantableBy(own), granted)
  if (beyond.length === 0) return
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    `${subject} has rights that your key lacks: ${beyond.join(', ')}. ${hint}`,
  )
}
