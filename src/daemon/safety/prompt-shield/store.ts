import { GatewayError } from '../../../shared/errors.ts'
import { SHIELD_POLICIES } from '../../../shared/spec-limits.ts'
import type { ShieldPolicy } from '../../../shared/wire/shield.ts'
import { ShieldPolicyDocument } from '../../../shared/wire/shield.ts'
import type { Db } from '../../platform/db/db.ts'
import type { ShieldPolicyRow } from '../../platform/db/tables.ts'
import { BUILT_IN_SHIELD_POLICIES } from './built-in.ts'

/** Returns all shield policies of a tenant, sorted by name. */
export async function findShieldPolicies(db: Db, tenantId: string): Promise<ShieldPolicy[]> {
  const rows = await db
    .selectFrom('shield_policies')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .orderBy('id')
    .execute()
  return rows.map(toShieldPolicy)
}

/** Returns a function that tests whether an id is a prompt shield policy of this tenant, custom or built-in. */
export async function knownShieldPolicies(db: Db, tenantId: string): Promise<(policyId: string) => boolean> {
  const rows = await db.selectFrom('shield_policies').select('id').where('tenant_id', '=', tenantId).execute()
  const known = new Set([...BUILT_IN_SHIELD_POLICIES, ...rows].map(({ id }) => id))
  return (id) => known.has(id)
}

export async function findShieldPolicy(db: Db, tenantId: string, id: string): Promise<ShieldPolicy | undefined> {
  const row = await db
    .selectFrom('shield_policies')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row && toShieldPolicy(row)
}

/** @throws POLICY_NAME_EXISTS, or VALIDATION_ERROR if the tenant has reached the limit */
export async function insertShieldPolicy(db: Db, row: ShieldPolicyRow): Promise<void> {
  const { total } = await db
    .selectFrom('shield_policies')
    .select((the) => the.fn.countAll<number>().as('total'))
    .where('tenant_id', '=', row.tenant_id)
    .executeTakeFirstOrThrow()
  if (Number(total) >= SHIELD_POLICIES) {
    throw new GatewayError(
      'VALIDATION_ERROR',
      `A tenant may have at most ${SHIELD_POLICIES} prompt shield policies. Delete one first.`,
    )
  }
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('shield_policies')
    .values(row)
    .onConflict((conflict) => conflict.columns(['tenant_id', 'id']).doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) throw nameExists(row.name)
}

export const nameExists = (name: string): GatewayError =>
  new GatewayError(
    'POLICY_NAME_EXISTS',
    `A prompt shield policy named "${name}" already exists. Choose another name.`,
    {
      details: { field: 'name', value: name },
    },
  )

export async function updateShieldPolicy(
  db: Db,
  { tenant_id, id, description, document, updated_at }: Omit<ShieldPolicyRow, 'name' | 'created_at'>,
): Promise<void> {
  await db
    .updateTable('shield_policies')
    .set({ description, document, updated_at })
    .where('tenant_id', '=', tenant_id)
    .where('id', '=', id)
    .execute()
}

export async function deleteShieldPolicy(db: Db, tenantId: string, id: string): Promise<void> {
  await db.deleteFrom('shield_policies').where('tenant_id', '=', tenantId).where('id', '=', id).execute()
}

const toShieldPolicy = (row: ShieldPolicyRow): ShieldPolicy => ({
  id: row.id,
  name: row.name,
  description: row.description,
  type: 'custom',
  policy: ShieldPolicyDocument.parse(JSON.parse(row.document)),
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})
