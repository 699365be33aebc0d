// Creates, changes, rotates and revokes API keys.
import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { newApiKey, newId, secretHash } from '../../../shared/ids.ts'
import { administersAll } from '../../../shared/permissions.ts'
import { isoTime } from '../../../shared/time.ts'
import { type CreateKeyRequest, KEY_READ_ONLY, type UpdateKeyRequest } from '../../../shared/wire/keys.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireCovered } from '../../platform/http/access.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { idOf } from '../../platform/http/route.ts'
import { type Activity, type Actor, type Change, type ChangeDeps, change } from '../../records/audit/change.ts'
import { rightsOfKey } from './rights.ts'
import {
  changedSettings,
  type KnownPolicy,
  readSettings,
  requireShieldPolicies,
  type StoredSettings,
  withPolicyIds,
  writeSettings,
} from './settings.ts'
import { findKey, findOtherKeysOfAdministrators, findOwner, insertKey, type OwnedKey, updateKey } from './store.ts'
import { toApiKey } from './view.ts'

export type KeyDeps = ChangeDeps & {
  /**
   * Returns a function that checks whether a policy exists. This function is called inside the change, so that a policy
   * cannot be deleted while it is being assigned to a key.
   */
  knownPolicies(tx: Db, tenantId: string): Promise<KnownPolicy>
  /** The same for prompt shield policies. */
  knownShieldPolicies(tx: Db, tenantId: string): Promise<KnownPolicy>
}

/** A key and its secret. The secret is returned only once. */
export type NewSecret = { key: OwnedKey; secret: string }

/**
 * Creates a key for an active user of the tenant, by default for the caller.
 * @throws VALIDATION_ERROR. INSUFFICIENT_PERMISSIONS if the key would have rights that the caller lacks.
 * INSUFFICIENT_PERMISSIONS if the key would belong to another user and the caller does not administer users.
 */
export function createKey(
  deps: KeyDeps,
  actor: Actor,
  { name, userId, expiresAt = null, enforceSMLTPPolicies: _, ...given }: z.output<typeof CreateKeyRequest>,
): Promise<NewSecret> {
  const now = deps.clock.now()
  const expires = toExpiry(expiresAt, now)
  return change(deps, actor, async ({ tx, caller, record }) => {
    const ownerId = userId ?? caller.userId
    requireMayActFor(caller, ownerId, ' To create a key for yourself, omit userId.')
    const settings = withPolicyIds(given, await deps.knownPolicies(tx, caller.tenantId))
    requireShieldPolicies(settings, await deps.knownShieldPolicies(tx, caller.tenantId))
    const found = await findOwner(tx, caller.tenantId, ownerId)
    if (!found) throw invalidField('userId', `There is no active user with the id "${ownerId}".`, ownerId)
    const rights = rightsOfKey({ settings, grantedLevels: null }, found.rights)
    requireCovered(caller.rights, rights, `The key "${name}"`, WITHOUT_EXCESS)
    const secret = newApiKey()
    const row = {
      id: newId(now),
      tenant_id: caller.tenantId,
      user_id: ownerId,
      name,
      secret_hash: secretHash(secret),
      is_operator: 0,
      created_at: isoTime(now),
      updated_at: isoTime(now),
      expires_at: expires,
      revoked_at: null,
      settings: writeSettings({ settings, grantedLevels: rights.levels }),
    }
    await insertKey(tx, row)
    await record({
      ...activity('create', row, `created API key "${name}"`),
      metadata: { userId: ownerId, expiresAt: expires, ...settings },
    })
    return { key: { row, owner: found.owner, ownerRights: found.rights, lastUsedAt: null }, secret }
  })
}

/**
 * Changes only the settings that the request contains.
 * @throws VALIDATION_ERROR, API_KEY_NOT_FOUND, API_KEY_REVOKED, LAST_ADMINISTRATOR. INSUFFICIENT_PERMISSIONS if the key
 * has, or would have, rights that the caller lacks. INSUFFICIENT_PERMISSIONS if the key belongs to another user and the
 * caller does not administer users.
 */
export function changeKey(
  deps: KeyDeps,
  actor: Actor,
  keyId: string | undefined,
  request: z.output<typeof UpdateKeyRequest>,
): Promise<OwnedKey> {
  const now = deps.clock.now()
  const { name, expiresAt, adminAccess } = request
  return changeOne(deps, actor, keyId, async ({ tx, caller, record, key, stored }) => {
    requireMayActFor(caller, key.row.user_id)
    refuseRevoked(key)
    const expiry = expiresAt === undefined ? {} : { expires_at: toExpiry(expiresAt, now, key.row.expires_at) }
    const changes = changesIn(request, KEY_READ_ONLY, toApiKey(key, isoTime(now)))
    const settings = withPolicyIds(
      changedSettings(stored.settings, changes),
      await deps.knownPolicies(tx, caller.tenantId),
    )
    requireShieldPolicies(settings, await deps.knownShieldPolicies(tx, caller.tenantId), stored.settings)
    let { grantedLevels } = stored
    // If the request grants `adminAccess` again, the owner's current levels apply.
    if (adminAccess !== undefined) grantedLevels = null
    const rights = rightsOfKey({ settings, grantedLevels }, key.ownerRights)
    requireCovered(caller.rights, rights, `The key "${key.row.name}" with these changes`, WITHOUT_EXCESS)
    if (adminAccess !== undefined) grantedLevels = rights.levels
    if (!settings.adminAccess) await requireOtherAdministratorKey(tx, caller, key, isoTime(now))
    await updateKey(tx, caller.tenantId, key.row.id, {
      ...(name !== undefined && { name }),
      ...expiry,
      settings: writeSettings({ settings, grantedLevels }),
      updated_at: isoTime(now),
    })
    await record({
      ...activity('update', key.row, `updated API key "${name ?? key.row.name}"`),
      metadata: changes,
    })
  })
}

/**
 * Gives the key a new secret. The old secret is rejected from now on. All other settings are kept. Administrator rights
 * that the owner has lost are removed from the key. The caller receives the secret, but was checked only against the
 * owner's current rights.
 * @throws API_KEY_NOT_FOUND, API_KEY_REVOKED. INSUFFICIENT_PERMISSIONS if the key has rights that the caller lacks.
 * INSUFFICIENT_PERMISSIONS if the key belongs to another user and the caller does not administer users.
 */
export async function rotateKey(deps: ChangeDeps, actor: Actor, keyId: string | undefined): Promise<NewSecret> {
  const secret = newApiKey()
  const key = await changeOne(deps, actor, keyId, async ({ tx, caller, record, key, stored }) => {
    requireMayActFor(caller, key.row.user_id)
    refuseRevoked(key)
    const grantedLevels = rightsOfKey(stored, key.ownerRights).levels
    await updateKey(tx, caller.tenantId, key.row.id, {
      secret_hash: secretHash(secret),
      settings: writeSettings({ ...stored, grantedLevels }),
      updated_at: isoTime(deps.clock.now()),
    })
    await record(activity('rotate', key.row, `rotated API key "${key.row.name}"`))
  })
  return { key, secret }
}

/**
 * Revokes a key permanently. A key that is already revoked is not changed. Keys of other users can be revoked too,
 * because an administrator of keys must be able to revoke any key immediately.
 * @throws API_KEY_NOT_FOUND, LAST_ADMINISTRATOR. INSUFFICIENT_PERMISSIONS if the key has rights that the caller lacks.
 */
export function revokeKey(deps: ChangeDeps, actor: Actor, keyId: string | undefined): Promise<OwnedKey> {
  return changeOne(deps, actor, keyId, async ({ tx, caller, record, key }) => {
    const wasRevoked = key.row.revoked_at !== null
    if (!wasRevoked) {
      const now = isoTime(deps.clock.now())
      await requireOtherAdministratorKey(tx, caller, key, now)
      await updateKey(tx, caller.tenantId, key.row.id, { revoked_at: now, updated_at: now })
    }
    await record({
      ...activity('revoke', key.row, `revoked API key "${key.row.name}"`),
      metadata: { wasRevoked },
    })
  })
}

/** Returns the key with this id in the caller's tenant. `keyId` is unvalidated input. @throws API_KEY_NOT_FOUND */
export async function getKey(db: Db, { tenantId }: Caller, keyId: string | undefined): Promise<OwnedKey> {
  const id = idOf(keyId, unknownKey)
  const key = await findKey(db, tenantId, id)
  if (!key) throw unknownKey(id)
  return key
}

type OneKey = Change & { key: OwnedKey; stored: StoredSettings }

/** Changes one key and returns its new state. */
async function changeOne(
  deps: ChangeDeps,
  actor: Actor,
  keyId: string | undefined,
  run: (one: OneKey) => Promise<void>,
): Promise<OwnedKey> {
  const id = idOf(keyId, unknownKey)
  return change(deps, actor, async (the) => {
    const { tx, caller } = the
    const key = await getKey(tx, caller, id)
    const stored = readSettings(key.row.settings)
    if (key.row.is_operator === 1) {
      throw new GatewayError(
        'INSUFFICIENT_PERMISSIONS',
        'The operator key cannot be changed here. Start the daemon with another AIGW_BOOTSTRAP_KEY instead.',
      )
    }
    const hint = 'Use a key that has these rights, or ask an administrator who has them.'
    requireCovered(caller.rights, rightsOfKey(stored, key.ownerRights), `The key "${key.row.name}"`, hint)
    await run({ ...the, key, stored })
    return getKey(tx, caller, id)
  })
}

const WITHOUT_EXCESS = 'Use a key that has these rights, or omit them: "adminAccess": false grants no administration.'

/**
 * Checks that the caller may manage keys of this owner. A key's secret allows its holder to act as the owner, and the
 * owner is billed. Managing another user's key therefore requires more than the right to administer keys. Call this
 * check before any other, so that a rejection does not reveal which users exist.
 * @throws INSUFFICIENT_PERMISSIONS
 */
function requireMayActFor({ userId, isAdmin }: Caller, ownerId: string, hint = ''): void {
  if (ownerId === userId || isAdmin) return
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    `Managing keys of other users requires a key with "user-management" at level "admin".${hint}`,
  )
}

/**
 * Call this before a key loses its administrator rights. Only changes of the caller's own key are checked: after any
 * other change, the caller still has an administrator key.
 * @throws LAST_ADMINISTRATOR if no other key in the tenant could create a new administrator key
 */
async function requireOtherAdministratorKey(tx: Db, caller: Caller, { row }: OwnedKey, now: string): Promise<void> {
  if (row.id !== caller.keyId || !administersAll(caller.rights)) return
  const others = await findOtherKeysOfAdministrators(tx, caller.tenantId, row.id, now)
  const rights = others.map(({ settings, ownerRights }) => rightsOfKey(readSettings(settings), ownerRights))
  if (rights.some(administersAll)) return
  throw new GatewayError(
    'LAST_ADMINISTRATOR',
    `"${row.name}" is the last administrator key in this tenant. Create another one first. Without one, only the ` +
      'operator can create a key, with POST /api/admin/tenants/{tenantId}/admin-key.',
  )
}

/** @throws API_KEY_REVOKED */
function refuseRevoked({ row }: OwnedKey): void {
  if (row.revoked_at === null) return
  throw new GatewayError('API_KEY_REVOKED', `The key "${row.name}" was revoked permanently. Create a new key.`)
}

/**
 * Converts an expiry to UTC, the stored format. The stored expiry is accepted unchanged, even if it has passed.
 * @throws VALIDATION_ERROR for any other time in the past, and for a year that does not have four digits
 */
function toExpiry(expiresAt: string | null, now: number, stored: string | null = null): string | null {
  if (expiresAt === null) return null
  const ms = Date.parse(expiresAt)
  if (stored !== null && ms === Date.parse(stored)) return stored
  if (!(ms > now)) throw invalidField('expiresAt', 'expiresAt must be in the future, or null for no expiry.', expiresAt)
  if (ms > LAST_TIME) throw invalidField('expiresAt', 'expiresAt must be before the year 10000.', expiresAt)
  return isoTime(ms)
}

/** The latest time with a four-digit year. Later times have more digits and could not be compared as text. */
const LAST_TIME = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

const activity = (
  operation: string,
  { id }: { id: string },
  description: string,
): Pick<Activity, 'type' | 'operation' | 'resourceType' | 'resourceId' | 'description'> => ({
  type: 'key_management',
  operation,
  resourceType: 'api_key',
  resourceId: id,
  description,
})

const unknownKey = (keyId: string) =>
  new GatewayError('API_KEY_NOT_FOUND', `There is no API key with the id "${keyId}".`)
