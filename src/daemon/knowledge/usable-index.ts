import { allowsIndex } from '../../shared/allowlists.ts'
import { GatewayError } from '../../shared/errors.ts'
import { INDEX_NAME } from '../../shared/spec-limits.ts'
import type { Db } from '../db/database.ts'
import type { Caller } from '../http/caller.ts'
import type { IndexRow } from './store.ts'

// Who may read an index may train it too. These are the only ways from a name to an index that lead to what it holds: chat,
// search, training and discovery all come through here.

/**
 * The index of this name, when the caller may read it: a general one, one that is theirs, or one of an active group that they
 * are in; and only if the list of their key has it. Administrators are no exception: they can assign an index to themselves,
 * which leaves an entry in the log.
 */
export async function findUsableIndex(db: Db, caller: Caller, name: string): Promise<IndexRow | undefined> {
  // What cannot be a name is not asked for: not every text can be sent to a database.
  if (!INDEX_NAME.test(name) || !allowsIndex(caller.settings.allowedIndexes, name)) return undefined
  return usableIndexes(db, caller).selectAll().where('name', '=', name).executeTakeFirst()
}

/**
 * The same for those who need one. An index that does not exist and one that is others' get the same answer.
 * @throws INSUFFICIENT_PERMISSIONS for a name outside the key's list, whether there is such an index or not; INDEX_NOT_FOUND
 */
export async function getUsableIndex(db: Db, caller: Caller, name = ''): Promise<IndexRow> {
  requireAllowed(caller, name)
  const index = await findUsableIndex(db, caller, name)
  if (index) return index
  throw new GatewayError('INDEX_NOT_FOUND', `There is no index "${name}"; GET /indexes lists those there are.`)
}

/** Asks again about an index that was usable. @throws INSUFFICIENT_PERMISSIONS, INDEX_NOT_FOUND */
export async function requireStillUsable(tx: Db, caller: Caller, index: IndexRow): Promise<void> {
  requireAllowed(caller, index.name)
  const now = await usableIndexes(tx, caller).select('id').where('id', '=', index.id).executeTakeFirst()
  if (!now) throw new GatewayError('INDEX_NOT_FOUND', `There is no index "${index.name}" any more.`)
}

/** All that the caller may read, in the order of their names. */
export function listUsableIndexes(db: Db, caller: Caller): Promise<IndexRow[]> {
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

function requireAllowed({ settings }: Caller, name: string): void {
  if (allowsIndex(settings.allowedIndexes, name)) return
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    'This key may not use an index of this name; GET /indexes lists those it may.',
  )
}
