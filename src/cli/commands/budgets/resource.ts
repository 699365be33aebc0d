import type { Budget } from '../../../shared/wire/budgets.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

const MEMBERS: Record<keyof Budget, true> = {
  id: true,
  scope: true,
  subject: true,
  subjectName: true,
  dollarLimit: true,
  period: true,
  currentSpend: true,
  remainingBudget: true,
  createdAt: true,
  updatedAt: true,
}

const IN_LISTS = columns(
  { SCOPE: 'scope', NAME: flexible('subjectName'), 'LIMIT (USD)': 'dollarLimit', 'SPENT (USD)': 'currentSpend' },
  { 'LEFT (USD)': 'remainingBudget', ID: 'id' },
)
const shared = {
  idPath: 'id',
  members: Object.keys(MEMBERS),
  none: 'No budgets. Create one:  aigw budgets create --tag TAG --limit DOLLARS',
}

/** A group and a tag may have the same name. */
export const BUDGETS: Described<Budget> = {
  noun: 'budget',
  command: 'budgets',
  path: '/api/admin/budgets',
  itemsKey: 'budgets',
  itemKey: 'budget',
  isCalled: (budget, name) => budget.subjectName === name || budget.subject === name,
  sharesNames: true,
  isWhole: true,
  argument: 'id, or a unique name of a group, tag or tenant',
  listView: { ...shared, columns: IN_LISTS },
  view: {
    ...shared,
    columns: [
      ...IN_LISTS,
      ...columns({ SUBJECT: 'subject', MONTH: 'period', CREATED: 'createdAt', UPDATED: 'updatedAt' }),
    ],
  },
}
