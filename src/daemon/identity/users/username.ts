import { USERNAME_CHARS } from '../../../shared/spec-limits.ts'
import type { Db } from '../../platform/db/db.ts'

/** Returns the default username for an email address: its local part, limited to the allowed characters and length. */
export function usernameOf(email: string): string {
  const local = email.slice(0, email.lastIndexOf('@'))
  const plain = local
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
  const long = plain.length < USERNAME_CHARS.min ? `user-${plain}` : plain
  return long.slice(0, USERNAME_CHARS.max).replace(/[.-]+$/, '')
}

/**
 * Returns the base name for count 1, and `<base>2`, `<base>3` and so on for higher counts. Names are shortened to the
 * maximum length.
 */
export const numbered = (base: string, count: number): string =>
  count === 1 ? base : `${base.slice(0, USERNAME_CHARS.max - String(count).length)}${count}`

/**
 * Returns a free username for this email address. The username stays free as long as the transaction has the tenant's
 * lock.
 */
export async function freeUsername(tx: Db, tenantId: string, email: string): Promise<string> {
  const base = usernameOf(email)
  const isTaken = async (count: number) => {
    const user = tx.selectFrom('users').select('id').where('tenant_id', '=', tenantId)
    return (await user.where('username', '=', numbered(base, count)).executeTakeFirst()) !== undefined
  }
  // Doubles the number until it finds a free number, then bisects the range below it. This needs few queries even if
  // thousands of addresses begin with "info".
  let taken = 0
  let free = 1
  while (await isTaken(free)) {
    taken = free
    free *= 2
  }
  while (free - taken > 1) {
    const middle = Math.floor((taken + free) / 2)
    if (await isTaken(middle)) taken = middle
    else free = middle
  }
  return numbered(base, free)
}
