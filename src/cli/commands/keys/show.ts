import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { KEYS } from '../../resources/resources.ts'
import { KEY_ARGUMENT, KEY_VIEW } from './view.ts'

export function showCommand(context: CliContext, run = showKey): Command {
  return new Command('show')
    .description('Show an API key and all of its restrictions; never its secret.')
    .argument('<key>', KEY_ARGUMENT)
    .action((key: string) => run(context, { key }))
}

/** GET /api/admin/api-keys/{id}. */
export const showKey = (context: CliContext, { key }: { key: string }): Promise<void> =>
  showItem(context, { resource: KEYS, given: key, view: KEY_VIEW })
