import type { Db } from '../../../src/daemon/db/database.ts'
import { toSearchText } from '../../../src/daemon/db/list-page.ts'
import { newId } from '../../../src/shared/ids.ts'
import { addKey, addRole, addTenant, addUser } from '../../accounts.ts'

const CREATED = '2026-01-01T00:00:00.000Z'

/**
 * One tenant with one of everything. Every text in it holds its `mark`, so that whatever of it turns up in an answer to
 * another tenant can be seen.
 */
export type World = { mark: string; tenantId: string } & Known

/** What a request may refer to, beside what its path names. */
export type Known = { userId: string; roleId: string; indexName: string }

/** Ids and a name that nothing has. */
export const nothing = (): Known => ({ userId: newId(), roleId: newId(), indexName: `nothing-${count++}` })

let count = 0

/** A name that was not there before; also good as a username, as the name of a role or of an index. */
export const freshName = ({ mark }: Pick<World, 'mark'>): string => `${mark}-${count++}`

/** Fills this tenant, or a new one. */
export async function addWorld(db: Db, mark: string, tenantId?: string): Promise<World> {
  const id = tenantId ?? (await addTenant(db, { name: mark })).id
  const bare = { mark, tenantId: id }
  const userId = await addTarget.user(db, bare)
  const roleId = await addTarget.role(db, bare)
  const indexName = await addTarget.index(db, bare)
  await addTarget.group(db, bare)
  await addTarget.key(db, bare)
  return { ...bare, userId, roleId, indexName }
}

/** Puts up one more of a kind, for a request to name in its path. Answers with how it is named there. */
export const addTarget = {
  async user(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const name = freshName({ mark })
    const email = `${name}@example.com`
    const search_text = toSearchText(name, email, name)
    const row = { tenant_id: tenantId, name, email, username: name, role: 'user' as const, search_text }
    return (await addUser(db, row)).id
  },

  async role(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const texts = { name: freshName({ mark }), display_name: `${mark} role`, description: `${mark} role` }
    return (await addRole(db, { tenant_id: tenantId, ...texts })).id
  },

  async group(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const id = newId()
    const name = freshName({ mark })
    const description = `${mark} group`
    const member = await addTarget.user(db, { tenantId, mark })
    await db
      .insertInto('groups')
      .values({
        id,
        tenant_id: tenantId,
        name,
        description,
        status: 'Active',
        user_count: 1,
        search_text: toSearchText(name, description),
        created_at: CREATED,
        updated_at: CREATED,
      })
      .execute()
    await db.insertInto('group_members').values({ tenant_id: tenantId, group_id: id, user_id: member }).execute()
    return id
  },

  async key(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const owner = await addTarget.user(db, { tenantId, mark })
    const { row } = await addKey(db, { tenant_id: tenantId, id: owner }, { name: freshName({ mark }) })
    return row.id
  },

  async index(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const name = freshName({ mark })
    const times = { created_at: CREATED, updated_at: CREATED }
    const row = { id: newId(), tenant_id: tenantId, name, description: `${mark} index`, created_by: newId(), ...times }
    await db.insertInto('indexes').values(row).execute()
    return name
  },

  async tenant(db: Db, { mark }: Pick<World, 'mark'>): Promise<string> {
    return (await addTenant(db, { name: freshName({ mark }) })).id
  },
}
