import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { newApiKey, newId, secretHash } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import { DEFAULT_KEY_SETTINGS } from '../../../shared/wire/keys.ts'
import type { Db } from '../../platform/db/db.ts'
import type { NewSecret } from '../keys/lifecycle.ts'
import { writeSettings } from '../keys/settings.ts'
import { findKey, insertKey, type OwnedKey } from '../keys/store.ts'

/** Creates a key with all rights of this administrator. `now` is in milliseconds. */
export async function insertAdminKey(
  tx: Db,
  { tenantId, userId, now }: { tenantId: string; userId: string; now: number },
): Promise<NewSecret> {
  const id = newId(now)
  const secret = newApiKey()
  await insertKey(tx, {
    id,
    tenant_id: tenantId,
    user_id: userId,
    name: 'administrator',
    secret_hash: secretHash(secret),
    is_operator: 0,
    created_at: isoTime(now),
    updated_at: isoTime(now),
    expires_at: null,
    revoked_at: null,
    settings: writeSettings({
      // The key has no request limits, because setting up a tenant takes more requests than the default daily limit.
      settings: { ...DEFAULT_KEY_SETTINGS, dailyLimit: null, monthlyLimit: null },
      grantedLevels: null,
    }),
  })
  return { key: (await findKey(tx, tenantId, id)) as OwnedKey, secret }
}

/**
 * Returns `userId`, or the id of the tenant's oldest active administrator if `userId` is undefined. Call it under the
 * tenant's lock, so that the user remains an administrator.
 * @throws NO_ADMINISTRATOR. VALIDATION_ERROR if the requested user is not an active administrator.
 */
export async function getAdministrator(tx: Db, tenantId: string, userId: string | undefined): Promise<string> {
  let administrators = tx
    .selectFrom('users')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('role', '=', 'admin')
    .where('status', '=', 1)
  if (userId !== undefined) administrators = administrators.where('id', '=', userId)
  const found = await administrators.orderBy('created_at').orderBy('id').limit(1).executeTakeFirst()
  if (found) return found.id
  if (userId !== undefined) {
    throw invalidField('userId', `There is no active administrator with the id "${userId}" in this tenant.`, userId)
  }
  throw new GatewayError(
    'NO_ADMINISTRATOR',
    'This tenant has no active administrator, so no administrator key can be created.',
  )
}
