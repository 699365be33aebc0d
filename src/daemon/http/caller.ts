/** Whom a request speaks for: the key that was presented, the user who owns it, and their tenant. */
export type Caller = {
  tenantId: string
  tenantName: string
  keyId: string
  keyName: string
  userId: string
  userName: string
  userEmail: string
  userRole: string
  /** The owner has administrator rights (architecture §6). */
  isAdmin: boolean
  /** Only the operator key may manage tenants; it is exempt from the general limits. */
  isOperator: boolean
}

/** The caller of a route that is open to everyone. */
export const NOBODY: Caller = Object.freeze({
  tenantId: '',
  tenantName: '',
  keyId: '',
  keyName: '',
  userId: '',
  userName: '',
  userEmail: '',
  userRole: '',
  isAdmin: false,
  isOperator: false,
})
