// The identity module: tenants, users, groups, roles and keys, and the authentication of callers.
import type { CountRejection } from '../platform/http/address-rate.ts'
import type { Route } from '../platform/http/route.ts'
import type { Log } from '../platform/log.ts'
import type { ChangeDeps } from '../records/audit/change.ts'
import { groupRoutes } from './groups/routes.ts'
import { type Authenticator, createAuthenticator } from './keys/authenticate.ts'
import type { KeyDeps } from './keys/lifecycle.ts'
import { keyRoutes } from './keys/routes.ts'
import { roleRoutes } from './roles/routes.ts'
import { ensureFirstStart } from './tenants/first-start.ts'
import { tenantRoutes } from './tenants/routes.ts'
import { type UserDeps, userRoutes } from './users/routes.ts'
import { findUserNames } from './users/store.ts'

export type IdentityRoom = Pick<Authenticator, 'authenticate' | 'isAccepted'> & {
  /** The dependencies that every administrative change needs. */
  access: ChangeDeps
  findUserNames: typeof findUserNames
  routes: Route[]
}

/** Initialises the module. The first start of a store creates the operator's tenant and key. */
export async function openIdentity(
  config: {
    bootstrapKey: string | undefined
    dataDir: string
    trustedProxies?: readonly string[] | undefined
  },
  {
    knownPolicies,
    knownShieldPolicies,
    requireFreeLicense,
    forgetBudgets,
    countRejection,
    log,
    ...deps
  }: Pick<KeyDeps, 'db' | 'clock' | 'signingKeys' | 'knownPolicies' | 'knownShieldPolicies'> &
    Pick<UserDeps, 'requireFreeLicense'> & {
      log: Log
      /** Called after a change of the budgets, groups or users of this tenant. */
      forgetBudgets(tenantId: string): void
      /** Called for each request with an unknown or malformed key. */
      countRejection: CountRejection
    },
): Promise<IdentityRoom> {
  const { db, clock } = deps
  const { createdKeyFile, warning } = await ensureFirstStart(db, { ...config, clock })
  if (warning) log.warn({}, warning)
  if (createdKeyFile) log.info({ file: createdKeyFile }, 'created the administrator key')
  const { authenticate, isAccepted, forgetKeys, lookUpAgain } = createAuthenticator({
    db,
    clock,
    trustedProxies: config.trustedProxies,
    countRejection,
  })
  const access: ChangeDeps = {
    ...deps,
    forgetKeys(tenantId) {
      forgetKeys(tenantId)
      forgetBudgets(tenantId)
    },
    lookUpAgain,
  }
  return {
    authenticate,
    isAccepted,
    access,
    findUserNames,
    routes: [
      ...tenantRoutes(access),
      ...userRoutes({ ...access, requireFreeLicense }),
      ...groupRoutes(access),
      ...roleRoutes(access),
      ...keyRoutes({ ...access, knownPolicies, knownShieldPolicies }),
    ],
  }
}
