import { GatewayError } from '../../../../shared/errors.ts'
import { GUARD_RULES } from '../../../../shared/spec-limits.ts'
import { type GuardRule, GuardRuleDocument } from '../../../../shared/wire/guard-rules.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { GuardRuleRow } from '../../../platform/db/tables.ts'

/** Returns all rules of a tenant, including disabled ones, sorted by name. */
export async function findGuardRules(db: Db, tenantId: string): Promise<GuardRule[]> {
  const rows = await db.selectFrom('guard_rules').selectAll().where('tenant_id', '=', tenantId).orderBy('id').execute()
  return rows.map(toGuardRule)
}

export async function findGuardRule(db: Db, tenantId: string, id: string): Promise<GuardRule | undefined> {
  const row = await db
    .selectFrom('guard_rules')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row && toGuardRule(row)
}

/** @throws GUARD_RULE_NAME_EXISTS, or VALIDATION_ERROR if the tenant has reached the limit */
export async function insertGuardRule(db: Db, row: GuardRuleRow): Promise<void> {
  const { total } = await db
    .selectFrom('guard_rules')
    .select((the) => the.fn.countAll<number>().as('total'))
    .where('tenant_id', '=', row.tenant_id)
    .executeTakeFirstOrThrow()
  if (Number(total) >= GUARD_RULES) {
    throw new GatewayError(
      'VALIDATION_ERROR',
      `A tenant may have at most ${GUARD_RULES} guard rules. Delete one first.`,
    )
  }
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('guard_rules')
    .values(row)
    .onConflict((conflict) => conflict.columns(['tenant_id', 'id']).doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) {
    throw new GatewayError(
      'GUARD_RULE_NAME_EXISTS',
      `A guard rule named "${row.name}" already exists. Choose another name.`,
      {
        details: { field: 'name', value: row.name },
      },
    )
  }
}

export async function updateGuardRule(
  db: Db,
  { tenant_id, id, document, updated_at }: Pick<GuardRuleRow, 'tenant_id' | 'id' | 'document' | 'updated_at'>,
): Promise<void> {
  await db
    .updateTable('guard_rules')
    .set({ document, updated_at })
    .where('tenant_id', '=', tenant_id)
    .where('id', '=', id)
    .execute()
}

export async function deleteGuardRule(db: Db, tenantId: string, id: string): Promise<void> {
  await db.deleteFrom('guard_rules').where('tenant_id', '=', tenantId).where('id', '=', id).execute()
}

const toGuardRule = ({ id, name, document, created_at, updated_at }: GuardRuleRow): GuardRule => ({
  id,
  name,
  ...GuardRuleDocument.parse(JSON.parse(document)),
  createdAt: created_at,
  updatedAt: updated_at,
})
