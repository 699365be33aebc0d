import { type Kysely, sql } from 'kysely'
import { skeletonOf } from '../../text/skeleton.ts'
import type { MigrationWithData } from '../migration-step.ts'

/** The tables whose rows have a name that people read, and the column of that name. */
export const NAMED = {
  tenants: 'name',
  users: 'name',
  groups: 'name',
  roles: 'display_name',
  api_keys: 'name',
} as const
const ROWS_PER_STATEMENT = 1_000

/**
 * `index_access` is what an index allows the keys that may read it. Existing indexes keep their rule: a key with
 * `indexAccess: write` may change their documents. `name_skeleton` finds names that look alike.
 */
export const rights: MigrationWithData = {
  before: ({ text }) => [
    `alter table indexes add column index_access ${text} not null default 'write'`,
    ...Object.keys(NAMED).map((table) => `alter table "${table}" add column name_skeleton ${text}`),
    // Correct for names in ASCII; `move` corrects the other ones.
    ...Object.entries(NAMED).map(([table, column]) => `update "${table}" set name_skeleton = lower(${column})`),
  ],
  async move(tx) {
    for (const [table, column] of Object.entries(NAMED)) await fillSkeletons(tx, table, column)
  },
  after: () =>
    Object.keys(NAMED).map((table) => {
      const columns = table === 'tenants' ? 'name_skeleton' : 'tenant_id, name_skeleton'
      return `create index ${table}_by_skeleton on "${table}" (${columns})`
    }),
}

/** Sets the skeletons of all names of a table. */
export async function fillSkeletons(tx: Kysely<unknown>, table: string, column: string): Promise<void> {
  const tenant = sql.ref(table === 'tenants' ? 'id' : 'tenant_id')
  let [afterTenant, afterId] = ['', '']
  for (;;) {
    const { rows } = await sql<{ tenant_id: string; id: string; name: string; name_skeleton: string }>`
      select ${tenant} as tenant_id, id, ${sql.ref(column)} as name, name_skeleton from ${sql.table(table)}
      where ${tenant} > ${afterTenant} or (${tenant} = ${afterTenant} and id > ${afterId})
      order by ${tenant}, id limit ${ROWS_PER_STATEMENT}`.execute(tx)
    for (const { tenant_id, id, name, name_skeleton } of rows) {
      const skeleton = skeletonOf(name)
      if (skeleton === name_skeleton) continue
      await sql`
        update ${sql.table(table)} set name_skeleton = ${skeleton}
        where ${tenant} = ${tenant_id} and id = ${id}`.execute(tx)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < ROWS_PER_STATEMENT) return
    afterTenant = last.tenant_id
    afterId = last.id
  }
}
