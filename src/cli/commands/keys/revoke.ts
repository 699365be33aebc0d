import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { KEYS } from '../../resources/resources.ts'
import { KEY_ARGUMENT } from './view.ts'

export type RevokeKeyInput = RemoveFlags & { key: string }

export function revokeCommand(context: CliContext, run = revokeKey): Command {
  const command = new Command('revoke')
    .description('Revoke an API key for good; it stays in the list as revoked.')
    .argument('<key>', KEY_ARGUMENT)
  return addRemoveOptions(command, KEYS.noun).action((key: string, flags: RemoveFlags) =>
    run(context, { key, ...flags }),
  )
}

/** DELETE /api/admin/api-keys/{id}, after a question. */
export const revokeKey = (context: CliContext, { key, ignoreNotFound }: RevokeKeyInput): Promise<void> =>
  remove(context, {
    resource: KEYS,
    given: key,
    ignoreNotFound,
    question: `Revoke API key '${key}'? It cannot be undone.`,
    done: 'revoked',
  })
