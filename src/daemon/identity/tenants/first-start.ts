// The first start of a store: creates the operator's tenant and key.
import { sql } from 'kysely'
import { newApiKey, newId, secretHash } from '../../../shared/ids.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { toSearchText } from '../../platform/db/list-page.ts'
import { skeletonOf } from '../../platform/text/skeleton.ts'
import { insertKey } from '../keys/store.ts'
import { insertSystemRoles } from '../roles/system-roles.ts'
import { NO_USAGE_BY_MODEL } from '../users/usage-by-model.ts'
import { adminKeyFile, readKeyFile, removeKeyFile, writeKeyFile } from './admin-key-file.ts'

export type FirstStartOptions = {
  /** The operator key from the configuration. If undefined, a key is generated in `<dataDir>/admin.key`. */
  bootstrapKey: string | undefined
  dataDir: string
  clock: Clock
}

export type FirstStart = {
  /** The path of the key file, if this start activated the file's key. */
  createdKeyFile?: string
  /** Explains why the configured key, or the key in admin.key, is not valid. This text is written to the log. */
  warning?: string
}

type Owner = { tenant_id: string; user_id: string }

const REVOKED =
  'AIGW_BOOTSTRAP_KEY is a revoked key and stays revoked. Choose a new key. The operator key is unchanged.'
const ORDINARY =
  'AIGW_BOOTSTRAP_KEY is already in use as an ordinary API key. Choose a new key. The operator key is unchanged.'

/**
 * Ensures that the store has the tenant `default`, the user `admin` and one operator key. It is safe to call this
 * function at every start, in concurrent daemons, and after a start that was killed at any point:
 *
 * - First start, no key configured: the key in admin.key becomes the operator key. The file is created if missing.
 * - First start, key configured: the configured key becomes the operator key.
 * - Later start, no key configured: nothing changes, even if admin.key was moved away.
 * - Later start, same key configured: nothing changes.
 * - Later start, new key configured: it becomes the operator key, and the previous operator key is revoked.
 * - Later start, the configured key is revoked or is an ordinary key: nothing changes, and a warning is logged.
 *
 * A file with a revoked operator key is removed.
 * @throws Error if the first start needs admin.key and cannot read, use or write it.
 */
export async function ensureFirstStart(db: Db, options: FirstStartOptions): Promise<FirstStart> {
  const started = await db.transaction().execute((tx) => ensureOperatorKey(tx, options))
  return { ...started, ...(started.warning === undefined ? await checkKeyFile(db, options.dataDir) : {}) }
}

async function ensureOperatorKey(tx: Db, { bootstrapKey, dataDir, clock }: FirstStartOptions): Promise<FirstStart> {
  await lockFirstStart(tx)
  const now = isoTime(clock.now())
  for (const { id } of await tx.selectFrom('tenants').select('id').execute()) await insertSystemRoles(tx, id, now)
  const operators = await tx.selectFrom('api_keys').selectAll().where('is_operator', '=', 1).execute()
  const [operator] = operators

  if (operator === undefined) {
    const isEmpty = (await tx.selectFrom('tenants').select('id').limit(1).executeTakeFirst()) === undefined
    const owner = await ensureOwner(tx, now)
    // If the store is empty, the key file was written by a first start that was killed. Otherwise, the file contains
    // the key of a deleted administrator. This key must not become valid again.
    const key = bootstrapKey ?? (isEmpty ? await readKeyFile(dataDir) : undefined) ?? (await newKeyFile(dataDir))
    await insertOperatorKey(tx, key, owner, now)
    return bootstrapKey === undefined ? { createdKeyFile: adminKeyFile(dataDir) } : {}
  }

  if (bootstrapKey === undefined) return {}
  const given = await findKey(tx, bootstrapKey)
  if (given !== undefined && given.is_operator === 0) return { warning: ORDINARY }
  if (given !== undefined) return given.revoked_at === null ? {} : { warning: REVOKED }
  await tx
    .updateTable('api_keys')
    .set({ revoked_at: now })
    .where('is_operator', '=', 1)
    .where('revoked_at', 'is', null)
    .execute()
  await insertOperatorKey(tx, bootstrapKey, operator, now)
  return {}
}

/**
 * Ensures that only one daemon at a time runs the first start, without blocking reads and authentication. On SQLite,
 * transactions are already exclusive.
 */
async function lockFirstStart(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`lock table tenants in share row exclusive mode`.execute(tx)
}

async function ensureOwner(tx: Db, now: string): Promise<Owner> {
  const name = 'default'
  const tenant = await tx
    .selectFrom('tenants')
    .select('id')
    .where('name', '=', name)
    .orderBy('created_at')
    .executeTakeFirst()
  const tenantId = tenant?.id ?? newId()
  if (tenant === undefined) {
    await tx
      .insertInto('tenants')
      .values({
        id: tenantId,
        name,
        status: 'Active',
        created_at: now,
        updated_at: now,
        search_text: toSearchText(name),
        name_skeleton: skeletonOf(name),
      })
      .execute()
    await insertSystemRoles(tx, tenantId, now)
  }
  const user = await tx
    .selectFrom('users')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('username', '=', 'admin')
    .executeTakeFirst()
  const userId = user?.id ?? newId()
  if (user === undefined) {
    await tx
      .insertInto('users')
      .values({
        id: userId,
        tenant_id: tenantId,
        name: 'Administrator',
        email: 'admin@localhost',
        username: 'admin',
        role: 'admin',
        status: 1,
        created_at: now,
        updated_at: now,
        license: 'Essential',
        auth_type: 'basic',
        is_verified: 1,
        setup_completed: 1,
        search_text: toSearchText('Administrator', 'admin@localhost', 'admin'),
        name_skeleton: skeletonOf('Administrator'),
        ...NO_USAGE_BY_MODEL,
      })
      .execute()
  }
  return { tenant_id: tenantId, user_id: userId }
}

async function insertOperatorKey(tx: Db, key: string, { tenant_id, user_id }: Owner, now: string): Promise<void> {
  await insertKey(tx, {
    id: newId(),
    tenant_id,
    user_id,
    name: 'operator',
    secret_hash: secretHash(key),
    is_operator: 1,
    created_at: now,
    updated_at: now,
    expires_at: null,
    revoked_at: null,
    settings: '{}',
  })
}

const findKey = (db: Db, key: string) =>
  db.selectFrom('api_keys').selectAll().where('secret_hash', '=', secretHash(key)).executeTakeFirst()

/**
 * Generates a key and writes it to the key file before the key becomes valid. If the process is killed between these
 * two steps, the next start activates the key.
 */
async function newKeyFile(dataDir: string): Promise<string> {
  const key = newApiKey()
  await writeKeyFile(dataDir, key)
  return key
}

/**
 * Removes a key file that contains a revoked key. If the file contains an unknown key, only logs a warning. Either file
 * would mislead the operator.
 */
async function checkKeyFile(db: Db, dataDir: string): Promise<FirstStart> {
  const key = await readKeyFile(dataDir).catch((error: Error) => error)
  if (key === undefined) return {}
  // An unreadable file causes only a warning, because later starts do not need the file.
  if (key instanceof Error) return { warning: key.message }
  const known = await findKey(db, key)
  if (known === undefined)
    return { warning: `${adminKeyFile(dataDir)} contains a key that does not exist in this store.` }
  if (known.is_operator === 1 && known.revoked_at !== null) await removeKeyFile(dataDir)
  return {}
}
