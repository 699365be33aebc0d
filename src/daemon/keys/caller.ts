/** Whom a request speaks for: the key that was presented and the user who owns it. */
export type Caller = {
  tenantId: string
  keyId: string
  keyName: string
  userId: string
  userRole: string
  /** The owner has administrator rights (architecture §6). */
  isAdmin: boolean
  /** Only the operator key may manage tenants; it is exempt from the general limits. */
  isOperator: boolean
}
