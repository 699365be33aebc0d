import { allowsIndex } from '../../../shared/allowlists.ts'
import { GatewayError } from '../../../shared/errors.ts'
import { mayUse } from '../../../shared/permissions.ts'
import { INDEX_NAME } from '../../../shared/spec-limits.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { IndexRow } from './store.ts'

// Chat, search, training and discovery all resolve an index name here. This is the only path from a name to an index's
// documents.

/**
 * Returns the index with this name if the caller may read it. Readable indexes are general indexes, the caller's own
 * indexes, and indexes of the caller's active groups. The key's allowlist must permit the index as well. This
 * restriction also applies to administrators: they must first assign the index to themselves. This assignment is
 * logged.
 */
export async function findReadableIndex(db: Db, caller: Caller, name: string): Promise<IndexRow | undefined> {
  // Validate the name before the query, because databases reject some strings.
  if (!INDEX_NAME.test(name) || !allowsIndex(caller.settings.allowedIndexes, name)) return undefined
  return usableIndexes(db, caller).selectAll().where('name', '=', name).executeTakeFirst()
}

/**
 * Same as `findReadableIndex`, but throws if the index is not readable. A missing index and another user's index cause
 * the same error.
 * @throws INSUFFICIENT_PERMISSIONS if the name is not on the key's allowlist, even if no such index exists;
 * INDEX_NOT_FOUND
 */
export async function getReadableIndex(db: Db, caller: Caller, name = ''): Promise<IndexRow> {
  requireAllowed(caller, name)
  const index = await findReadableIndex(db, caller, name)
  if (index) return index
  throw new GatewayError(
    'INDEX_NOT_FOUND',
    `The index "${name}" does not exist. GET /indexes lists the available indexes.`,
  )
}

/**
 * Same as `getReadableIndex`, but also requires the right to change the documents of the index.
 * @throws INSUFFICIENT_PERMISSIONS also if the caller is only allowed to read the index
 */
export async function getWritableIndex(db: Db, caller: Caller, name = ''): Promise<IndexRow> {
  const index = await getReadableIndex(db, caller, name)
  requireWritable(caller, index)
  return index
}

/** Checks again that the caller may change the index. @throws INSUFFICIENT_PERMISSIONS, INDEX_NOT_FOUND */
export async function requireStillWritable(tx: Db, caller: Caller, index: IndexRow): Promise<void> {
  requireAllowed(caller, index.name)
  const now = await usableIndexes(tx, caller).selectAll().where('id', '=', index.id).executeTakeFirst()
  if (!now) throw new GatewayError('INDEX_NOT_FOUND', `The index "${index.name}" no longer exists.`)
  requireWritable(caller, now)
}

/** Returns all indexes that the caller may read, ordered by name. */
export function listReadableIndexes(db: Db, caller: Caller): Promise<IndexRow[]> {
  const { allowedIndexes } = caller.settings
  const all = usableIndexes(db, caller).selectAll().orderBy('name')
  return (allowedIndexes.length === 0 ? all : all.where('name', 'in', allowedIndexes)).execute()
}

const usableIndexes = (db: Db, { tenantId, userId }: Caller) =>
  db
    .selectFrom('indexes')
    .where('tenant_id', '=', tenantId)
    .where('deleted_at', 'is', null)
    .where((the) =>
      the.or([
        the.and([the('assigned_user_id', 'is', null), the('assigned_group_id', 'is', null)]),
        the('assigned_user_id', '=', userId),
        the(
          'assigned_group_id',
          'in',
          the
            .selectFrom('group_members')
            .innerJoin('groups', (join) =>
              join
                .onRef('groups.tenant_id', '=', 'group_members.tenant_id')
                .onRef('groups.id', '=', 'group_members.group_id'),
            )
            .select('groups.id')
            .where('group_members.tenant_id', '=', tenantId)
            .where('group_members.user_id', '=', userId)
            .where('groups.status', '=', 'Active'),
        ),
      ]),
    )

/**
 * Throws unless the caller may change the index. The owner of a personal index is the assigned user, not the creator:
 * administrators create indexes for the applications that read them. For other readers, both the key and the index must
 * allow writing.
 */
function requireWritable({ rights, userId }: Caller, index: IndexRow): void {
  const { name, assigned_user_id, assigned_group_id, index_access } = index
  if (assigned_user_id === userId || mayUse(rights, 'index-management', 'admin')) return
  if (assigned_group_id !== null && mayUse(rights, 'group-management', 'admin')) return
  if (index_access === 'write' && rights.indexAccess === 'write') return
  const owner =
    assigned_group_id === null ? 'a key of the owner of the index' : 'a key with "group-management" at level "admin"'
  const others = `${owner}, or one with "index-management" at level "admin".`
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    index_access === 'read'
      ? `The index "${name}" is read-only for its readers ("indexAccess": "read"). To change its documents, use ${others}`
      : `This key may only read the index "${name}". To change its documents, use a key with "indexAccess": "write", ${others}`,
  )
}

function requireAllowed({ settings }: Caller, name: string): void {
  if (allowsIndex(settings.allowedIndexes, name)) return
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    'This key may not use an index with this name. GET /indexes lists the allowed ones.',
  )
}
