import { z } from 'zod'
import { DOLLAR_LIMIT_MAX, TAG_CHARS } from '../spec-limits.ts'
import { oneOf, optional, readOnlyMembers, requestBody, storableText } from './common.ts'

/** What a budget limits. Accounts and keys have their own budgets, as `usageByModel`. */
export const BUDGET_SCOPES = ['group', 'tag', 'tenant'] as const
export type BudgetScope = (typeof BUDGET_SCOPES)[number]

/** A monthly budget in dollars. */
export const Budget = z
  .object({
    id: z.string(),
    scope: z.enum(BUDGET_SCOPES),
    subject: z.string().meta({ description: 'The id of the group or of the tenant, or the tag' }),
    subjectName: z
      .string()
      .nullable()
      .meta({ description: 'The name of the group or tenant, or the tag; null if it was deleted' }),
    dollarLimit: z.number(),
    period: z.string().meta({ description: 'The current month in UTC', example: '2026-01' }),
    currentSpend: z.number().meta({ description: 'Dollars spent this month' }),
    remainingBudget: z.number(),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Budget' })
export type Budget = z.infer<typeof Budget>

const dollarLimit = z
  .number({ error: 'dollarLimit must be a number of dollars' })
  .min(0, { error: 'dollarLimit must not be negative' })
  .max(DOLLAR_LIMIT_MAX, { error: `dollarLimit may be at most ${DOLLAR_LIMIT_MAX}` })

/** The body of POST /api/admin/budgets. */
export const CreateBudgetRequest = requestBody('CreateBudgetRequest', {
  scope: oneOf('scope', BUDGET_SCOPES),
  subject: storableText('subject')
    .min(1, { error: 'subject is required: the id of a group or tenant, or a tag' })
    .max(TAG_CHARS, { error: `subject may have at most ${TAG_CHARS} characters` }),
  dollarLimit,
})

/** The members of a budget that PUT cannot change. */
export const BUDGET_READ_ONLY = [
  'id',
  'scope',
  'subject',
  'subjectName',
  'period',
  'currentSpend',
  'remainingBudget',
  'createdAt',
  'updatedAt',
] as const satisfies (keyof Budget)[]

/** The body of PUT /api/admin/budgets/{budgetId}. */
export const UpdateBudgetRequest = requestBody('UpdateBudgetRequest', {
  dollarLimit: optional(dollarLimit),
  ...readOnlyMembers(BUDGET_READ_ONLY),
})

export const ListBudgetsQuery = z.object({ scope: oneOf('scope', BUDGET_SCOPES).optional() })
export const ListBudgetsResponse = z.object({ success: z.literal(true), budgets: z.array(Budget) })
export const ShowBudgetResponse = z.object({ success: z.literal(true), budget: Budget })
export const BudgetResponse = z.object({ success: z.literal(true), message: z.string(), budget: Budget })
