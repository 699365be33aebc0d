// The rule for names that people read: no name looks like an existing name in letters of another script.
import { sql } from 'kysely'
import { invalidField } from '../../../shared/errors.ts'
import { type LookAlike, lookAlikeIn, skeletonOf } from '../text/skeleton.ts'
import type { Db } from './db.ts'

/** More names than these do not change the result: one of them suffices for the error. */
const COMPARED = 100

/** A name to check. `id` is the resource that has it or gets it. */
type Named = { id: string; name: string }

/** The columns of each table that contain such a name. */
const COLUMNS = { users: 'name', groups: 'name', roles: 'display_name', api_keys: 'name' } as const

/**
 * Checks that a new name does not look like another one of this kind in the tenant. A resource may keep its name. Call
 * it in the transaction of a change: changes of one tenant are serialised.
 * @throws VALIDATION_ERROR
 */
export async function requireDistinctName(
  tx: Db,
  table: keyof typeof COLUMNS,
  { tenantId, id, name }: Named & { tenantId: string },
): Promise<void> {
  const column = sql.ref(COLUMNS[table])
  const { rows } = await sql<{ name: string }>`
    select distinct ${column} as name from ${sql.table(table)}
    where tenant_id = ${tenantId} and name_skeleton = ${skeletonOf(name)} and id <> ${id} and ${column} <> ${name}
      and not exists (
        select 1 from ${sql.table(table)} where tenant_id = ${tenantId} and id = ${id} and ${column} = ${name}
      )
    limit ${COMPARED}`.execute(tx)
  requireUnlike(table === 'roles' ? 'displayName' : 'name', name, rows)
}

/** The same for the name of a tenant. @throws VALIDATION_ERROR */
export async function requireDistinctTenantName(tx: Db, { id, name }: Named): Promise<void> {
  const rows = await tx
    .selectFrom('tenants')
    .select('name')
    .where('name_skeleton', '=', skeletonOf(name))
    .where('id', '<>', id)
    .where((the) =>
      the.not(
        the.exists(the.selectFrom('tenants as t').select('t.id').where('t.id', '=', id).where('t.name', '=', name)),
      ),
    )
    .limit(COMPARED)
    .execute()
  requireUnlike('name', name, rows)
}

/** Checks a name against the names of other resources. @throws VALIDATION_ERROR */
export function requireUnlike(field: string, name: string, others: readonly { name: string }[]): void {
  for (const other of others) {
    const found = lookAlikeIn(name, other.name)
    if (!found) continue
    throw invalidField(
      field,
      `The name "${name}" looks like the existing name "${other.name}": ${reasonOf(found)}. Choose another name.`,
      name,
    )
  }
}

const reasonOf = ({ letter, script }: LookAlike): string =>
  script === undefined
    ? `the dot ${codePointOf(letter)} of one of them cannot be seen`
    : `"${letter}" (${codePointOf(letter)}) is a letter of ${script}`

const codePointOf = (char: string): string =>
  `U+${(char.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}`
