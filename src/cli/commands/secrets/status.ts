/** Shows which master key encrypts the secrets of the store. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { MasterKeyResponse } from '../../../shared/wire/master-key.ts'
import type { CliContext } from '../../context.ts'
import { itemIn } from '../../resources/resolve.ts'
import { MASTER_KEY_PATH, MASTER_KEY_VIEW } from './master-key-view.ts'

type MasterKey = z.infer<typeof MasterKeyResponse>['master_key']

export function toCommand(context: CliContext): Command {
  return new Command('status')
    .description('Show which master key encrypts the secrets of the store, and its rotation (operator key)')
    .action(async () => {
      const [api, output] = await Promise.all([context.api(), context.output()])
      output.assertShowable(MASTER_KEY_VIEW)
      const { body, raw } = await api.send({ method: 'GET', path: MASTER_KEY_PATH })
      await output.one(itemIn<MasterKey>(body, 'master_key', api.baseUrl), MASTER_KEY_VIEW, raw)
    })
}
