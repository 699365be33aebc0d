// SQL queries for the budgets of groups, tags and tenants. A budget counts its spend in its own row of spend_counters.
import { GatewayError } from '../../../shared/errors.ts'
import { BUDGETS_PER_TENANT } from '../../../shared/spec-limits.ts'
import type { BudgetScope } from '../../../shared/wire/budgets.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { BudgetRow, SpendCounterRow } from '../../platform/db/tables.ts'

/** A budget, the name of its subject, and its spend in one month. */
export type BudgetWithSpend = BudgetRow & { name: string | null; spent_nanos: number }

/** The budgets that a caller sees: those of its tenant, and for the operator the tenant budgets of all tenants. */
export type BudgetViewer = { tenantId: string; isOperator: boolean }

/** Returns the budgets of a tenant that limit its requests. */
export const listBudgetRows = (db: Db, tenantId: string): Promise<BudgetRow[]> =>
  db.selectFrom('budgets').selectAll().where('tenant_id', '=', tenantId).orderBy('id').execute()

/** Returns the visible budgets with the spend of this month, or one of them. */
export async function listBudgets(
  db: Db,
  { tenantId, isOperator }: BudgetViewer,
  { period, scope, id }: { period: string; scope?: BudgetScope | undefined; id?: string },
): Promise<BudgetWithSpend[]> {
  let query = db
    .selectFrom('budgets')
    .leftJoin('groups', (join) =>
      join.onRef('groups.id', '=', 'budgets.subject').onRef('groups.tenant_id', '=', 'budgets.tenant_id'),
    )
    .leftJoin('tenants', 'tenants.id', 'budgets.subject')
    .leftJoin('spend_counters', (join) =>
      join
        .onRef('spend_counters.tenant_id', '=', 'budgets.tenant_id')
        .onRef('spend_counters.holder_id', '=', 'budgets.id')
        .on('spend_counters.holder', '=', 'budget')
        .on('spend_counters.period', '=', period),
    )
    .selectAll('budgets')
    .select(['groups.name as group_name', 'tenants.name as tenant_name', 'spend_counters.nanos as spent'])
    .where((where) => {
      const own = where('budgets.tenant_id', '=', tenantId)
      return isOperator ? where.or([own, where('budgets.scope', '=', 'tenant')]) : own
    })
    .orderBy('budgets.id')
  if (scope !== undefined) query = query.where('budgets.scope', '=', scope)
  if (id !== undefined) query = query.where('budgets.id', '=', id)
  const rows = await query.execute()
  return rows.map(({ group_name, tenant_name, spent, ...row }) => ({
    ...row,
    name: row.scope === 'tag' ? row.subject : row.scope === 'group' ? group_name : tenant_name,
    spent_nanos: spent ?? 0,
  }))
}

/**
 * Adds a budget. The unique index decides if two callers create it at the same time.
 * @throws BUDGET_EXISTS, VALIDATION_ERROR if the tenant has too many budgets
 */
export async function insertBudget(tx: Db, row: BudgetRow): Promise<void> {
  // A tenant has one budget of its own at most. The operator can always set it, however many others the tenant creates.
  if (row.scope !== 'tenant') await requireRoom(tx, row)
  const inserted = await insertRows(tx, 'budgets', [row], { onConflict: 'ignore' })
  if (inserted === 0)
    throw new GatewayError('BUDGET_EXISTS', `This ${row.scope} already has a budget. Change its limit instead.`, {
      details: { field: 'subject', value: row.subject },
    })
}

/** @throws VALIDATION_ERROR if the tenant has BUDGETS_PER_TENANT budgets of groups and tags */
async function requireRoom(tx: Db, { tenant_id }: Pick<BudgetRow, 'tenant_id'>): Promise<void> {
  const { count } = await tx
    .selectFrom('budgets')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('tenant_id', '=', tenant_id)
    .where('scope', '!=', 'tenant')
    .executeTakeFirstOrThrow()
  if (Number(count) < BUDGETS_PER_TENANT) return
  throw new GatewayError(
    'VALIDATION_ERROR',
    `A tenant may have ${BUDGETS_PER_TENANT} budgets of groups and tags. Delete one first.`,
  )
}

export async function updateBudget(tx: Db, { id, tenant_id, limit_nanos, updated_at }: BudgetRow): Promise<void> {
  await tx
    .updateTable('budgets')
    .set({ limit_nanos, updated_at })
    .where('tenant_id', '=', tenant_id)
    .where('id', '=', id)
    .execute()
}

export async function deleteBudget(tx: Db, { id, tenant_id }: Pick<BudgetRow, 'id' | 'tenant_id'>): Promise<void> {
  await tx.deleteFrom('budgets').where('tenant_id', '=', tenant_id).where('id', '=', id).execute()
}

/** Starts the counter of a new budget with the dollars that the reports show for this month. */
export async function startCounter(
  tx: Db,
  { id, tenant_id, scope, subject }: BudgetRow,
  period: string,
): Promise<void> {
  let sum = tx
    .selectFrom('usage_days')
    .select(({ fn }) => fn.sum<number | null>('billed_nanos').as('nanos'))
    .where('tenant_id', '=', tenant_id)
    .where('day', '>=', `${period}-01`)
    .where('day', '<=', `${period}-31`)
  if (scope === 'tag') sum = sum.where('tag', '=', subject)
  if (scope === 'group')
    sum = sum.where('user_id', 'in', (select) =>
      select
        .selectFrom('group_members')
        .select('user_id')
        .where('tenant_id', '=', tenant_id)
        .where('group_id', '=', subject),
    )
  const { nanos } = await sum.executeTakeFirstOrThrow()
  const counter: SpendCounterRow = {
    tenant_id,
    holder: 'budget',
    holder_id: id,
    period,
    nanos: Math.min(Number.MAX_SAFE_INTEGER, Number(nanos ?? 0)),
    points: 0,
  }
  await insertRows(tx, 'spend_counters', [counter])
}

/** Whether the group or the tenant exists. */
export async function hasSubject(
  db: Db,
  { tenant_id, scope, subject }: Pick<BudgetRow, 'tenant_id' | 'scope' | 'subject'>,
): Promise<boolean> {
  if (scope === 'tag') return true
  const found =
    scope === 'group'
      ? db.selectFrom('groups').select('id').where('tenant_id', '=', tenant_id).where('id', '=', subject)
      : db.selectFrom('tenants').select('id').where('id', '=', subject)
  return (await found.executeTakeFirst()) !== undefined
}

/** Returns the groups with a budget that have this user as a member. */
export async function findGroupsOf(db: Db, tenantId: string, userId: string): Promise<Set<string>> {
  const rows = await db
    .selectFrom('group_members')
    .innerJoin('budgets', (join) =>
      join
        .onRef('budgets.tenant_id', '=', 'group_members.tenant_id')
        .onRef('budgets.subject', '=', 'group_members.group_id')
        .on('budgets.scope', '=', 'group'),
    )
    .select('group_id')
    .where('group_members.tenant_id', '=', tenantId)
    .where('user_id', '=', userId)
    .execute()
  return new Set(rows.map(({ group_id }) => group_id))
}
