/** Manages the monthly budgets of groups, tags and tenants. */
import { usageError } from '../../errors.ts'
import { type Field, field } from '../../input/fields.ts'
import type { Fields } from '../../input/from-file.ts'
import { createVerb, deleteVerb, idOf, listVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { GROUPS } from '../groups/resource.ts'
import { TENANTS } from '../tenants/resource.ts'
import { BUDGETS } from './resource.ts'

const SCOPES = ['group', 'tag', 'tenant'] as const

const limit: Field = field('dollarLimit', '--limit <dollars>', 'the highest cost in a UTC month', { parse: toDollars })

export const commands = {
  create: createVerb(BUDGETS, {
    description: 'Create a monthly budget in dollars, in addition to those of accounts and keys.',
    fields: [
      field('group', '--group <group>', `of the members of this group: ${GROUPS.argument}`, { resolve: idOf(GROUPS) }),
      field('tag', '--tag <tag>', 'of the requests with this tag (header X-AIGW-Tag, or metadata.tag)'),
      field('tenant', '--tenant <tenant>', `of this tenant: ${TENANTS.argument}; needs the operator key`, {
        resolve: idOf(TENANTS),
      }),
      limit,
    ],
    help: 'Example:\n  aigw budgets create --group support --limit 250',
    key: 'subject',
    toRequest: (_, input) => toRequest(input),
  }),
  list: listVerb(BUDGETS, {
    description: 'List budgets and what is spent this month; the operator also sees those of all tenants.',
    fields: [{ member: 'scope', flag: '--scope <scope>', choices: SCOPES, help: 'only these' }],
  }),
  show: showVerb(BUDGETS, 'Show a budget and what is spent this month.'),
  update: updateVerb(BUDGETS, { description: 'Change the limit of a budget.', fields: [limit] }),
  delete: deleteVerb(BUDGETS, { description: 'Delete a budget. Its group, tag or tenant is no longer limited.' }),
}

/** Throws a usage error unless exactly one of the three flags is given. */
function toRequest({ dollarLimit, ...input }: Fields): Fields {
  const [scope, another] = SCOPES.filter((name) => input[name] !== undefined)
  if (scope === undefined || another !== undefined) throw usageError('give one of --group, --tag and --tenant')
  if (dollarLimit === undefined) throw usageError('give --limit, the dollars a month')
  return { scope, subject: input[scope], dollarLimit }
}

function toDollars(text: string, flag: string): number {
  if (/^\d{1,7}(\.\d{1,9})?$/.test(text)) return Number(text)
  throw usageError(`${flag} must be dollars such as 25 or 12.50, not '${text}'`)
}
