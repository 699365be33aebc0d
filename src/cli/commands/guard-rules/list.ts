import { Command } from 'commander'
import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import type { CliContext } from '../../context.ts'
import { listAll } from '../../resources/listing.ts'
import { GUARD_RULES } from '../../resources/resources.ts'
import { RULE_LIST_VIEW } from './view.ts'

export function listCommand(context: CliContext, run = listRules): Command {
  return new Command('list').description('List the guard rules of this tenant.').action(() => run(context))
}

/** GET /api/admin/guard-rules, which has no pages. */
export const listRules = (context: CliContext): Promise<void> =>
  listAll<GuardRule>(context, { ...GUARD_RULES, limit: 1, all: true, view: RULE_LIST_VIEW })
