// The routes that manage the budgets of groups, tags and tenants.
import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import {
  BUDGET_READ_ONLY,
  type Budget,
  BudgetResponse,
  CreateBudgetRequest,
  ListBudgetsQuery,
  ListBudgetsResponse,
  ShowBudgetResponse,
  UpdateBudgetRequest,
} from '../../../shared/wire/budgets.ts'
import { DoneResponse, StructuredError } from '../../../shared/wire/common.ts'
import { isTag, TAG_RULE } from '../../../shared/wire/tags.ts'
import type { Db } from '../../platform/db/db.ts'
import type { BudgetRow } from '../../platform/db/tables.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { idOf, type Route, reply, route } from '../../platform/http/route.ts'
import { type ChangeDeps, change } from '../../records/audit/change.ts'
import { toDollars, toNanos } from '../usage/money.ts'
import { periodAt } from '../usage/period.ts'
import {
  type BudgetWithSpend,
  deleteBudget,
  hasSubject,
  insertBudget,
  listBudgets,
  startCounter,
  updateBudget,
} from './store.ts'

const PATH = '/api/admin/budgets'
const NOT_FOUND = { description: 'This key sees no budget with this id', schema: StructuredError }

/** Returns the routes that manage budgets. */
export function budgetRoutes(deps: ChangeDeps): Route[] {
  const { db, clock } = deps
  const month = () => periodAt(clock.now()).name
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'user-management',
    errors: 'structured',
    tags: ['Budgets'],
  }

  /** @throws BUDGET_NOT_FOUND */
  async function getBudget(tx: Db, caller: Caller, given: string | undefined): Promise<BudgetWithSpend> {
    const [found] = await listBudgets(tx, caller, { period: month(), id: idOf(given, notFound) })
    if (!found) throw notFound()
    return found
  }

  return [
    route({
      ...common,
      method: 'GET',
      path: PATH,
      summary: 'List the monthly budgets of groups, tags and the tenant; for the operator, of all tenants',
      query: ListBudgetsQuery,
      responses: { 200: { description: 'All budgets, oldest first', schema: ListBudgetsResponse } },
      async handle({ caller, query: { scope } }) {
        const rows = await listBudgets(db, caller, { period: month(), scope })
        const budgets = rows.map((row) => toBudget(row, month()))
        return reply(200, { success: true, budgets } satisfies z.input<typeof ListBudgetsResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: PATH,
      summary: 'Create a monthly budget in dollars; only the operator creates budgets of tenants',
      body: CreateBudgetRequest,
      responses: {
        201: { description: 'The new budget', schema: BudgetResponse },
        409: { description: 'The group, tag or tenant already has a budget', schema: StructuredError },
      },
      async handle(context) {
        const { scope, dollarLimit } = context.body
        const subject = subjectOf(context.body)
        const now = clock.now()
        const row: BudgetRow = {
          id: newId(now),
          tenant_id: scope === 'tenant' ? subject : context.caller.tenantId,
          scope,
          subject,
          limit_nanos: toNanos(dollarLimit),
          created_at: isoTime(now),
          updated_at: isoTime(now),
        }
        const budget = await change(deps, context, async ({ tx, caller, record }) => {
          requireMayChange(caller, row)
          if (!(await hasSubject(tx, row))) throw invalidField('subject', `No ${scope} has this id.`)
          await insertBudget(tx, row)
          await startCounter(tx, row, month())
          await record({ ...activityOn(row, 'create'), metadata: { scope, subject, dollarLimit } })
          return getBudget(tx, caller, row.id)
        })
        const shown = toBudget(budget, month())
        return reply(201, { success: true, message: 'Budget created', budget: shown } satisfies z.input<
          typeof BudgetResponse
        >)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: `${PATH}/{budgetId}`,
      summary: 'Show a budget and the dollars spent this month',
      responses: { 200: { description: 'The budget', schema: ShowBudgetResponse }, 404: NOT_FOUND },
      async handle({ caller, params }) {
        const budget = toBudget(await getBudget(db, caller, params.budgetId), month())
        return reply(200, { success: true, budget } satisfies z.input<typeof ShowBudgetResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: `${PATH}/{budgetId}`,
      summary: 'Change the limit of a budget',
      body: UpdateBudgetRequest,
      responses: { 200: { description: 'The changed budget', schema: BudgetResponse }, 404: NOT_FOUND },
      async handle(context) {
        const budget = await change(deps, context, async ({ tx, caller, record }) => {
          const before = await getBudget(tx, caller, context.params.budgetId)
          const { dollarLimit } = changesIn(context.body, BUDGET_READ_ONLY, toBudget(before, month()))
          requireMayChange(caller, before)
          const limit_nanos = dollarLimit === undefined ? before.limit_nanos : toNanos(dollarLimit)
          await updateBudget(tx, { ...before, limit_nanos, updated_at: isoTime(clock.now()) })
          await record({ ...activityOn(before, 'update'), metadata: { dollarLimit } })
          return getBudget(tx, caller, before.id)
        })
        const shown = toBudget(budget, month())
        return reply(200, { success: true, message: 'Budget updated', budget: shown } satisfies z.input<
          typeof BudgetResponse
        >)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: `${PATH}/{budgetId}`,
      summary: 'Delete a budget; its group, tag or tenant is no longer limited',
      responses: { 200: { description: 'The budget was deleted', schema: DoneResponse }, 404: NOT_FOUND },
      async handle(context) {
        await change(deps, context, async ({ tx, caller, record }) => {
          const before = await getBudget(tx, caller, context.params.budgetId)
          requireMayChange(caller, before)
          await deleteBudget(tx, before)
          await record({ ...activityOn(before, 'delete'), metadata: { scope: before.scope, subject: before.subject } })
        })
        return reply(200, { success: true, message: 'Budget deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

const notFound = () =>
  new GatewayError('BUDGET_NOT_FOUND', 'Budget not found. GET /api/admin/budgets lists all budgets.')

/** @throws VALIDATION_ERROR */
function subjectOf({ scope, subject }: z.output<typeof CreateBudgetRequest>): string {
  if (scope === 'tag') {
    if (!isTag(subject)) throw invalidField('subject', `A tag must have ${TAG_RULE}.`, subject)
    return subject
  }
  return idOf(subject, () =>
    invalidField('subject', `subject must be the id of a ${scope}: 24 hex characters.`, subject),
  )
}

/** A tenant must not raise its own budget. @throws INSUFFICIENT_PERMISSIONS */
function requireMayChange({ isOperator }: Caller, { scope }: Pick<BudgetRow, 'scope'>): void {
  if (scope === 'tenant' && !isOperator)
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'Only the operator key may change the budget of a tenant.')
}

const activityOn = ({ id, tenant_id, scope, subject }: BudgetRow, operation: 'create' | 'update' | 'delete') =>
  ({
    type: 'budget_management',
    operation,
    resourceType: 'budget',
    resourceId: id,
    tenantId: tenant_id,
    description: `${operation}d the budget of the ${scope} "${subject}"`,
  }) as const

const toBudget = (row: BudgetWithSpend, period: string): Budget => ({
  id: row.id,
  scope: row.scope,
  subject: row.subject,
  subjectName: row.name,
  dollarLimit: toDollars(row.limit_nanos),
  period,
  currentSpend: toDollars(row.spent_nanos),
  remainingBudget: toDollars(Math.max(0, row.limit_nanos - row.spent_nanos)),
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})
