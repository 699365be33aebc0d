/** Rotates the master key that encrypts the secrets of the store. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { MasterKeyResponse } from '../../../shared/wire/master-key.ts'
import type { CliContext } from '../../context.ts'
import { pause } from '../../io.ts'
import { createProgress } from '../../output/progress.ts'
import { itemIn } from '../../resources/resolve.ts'
import { MASTER_KEY_PATH, MASTER_KEY_VIEW, ROTATE_MASTER_KEY_PATH } from './master-key-view.ts'

const LOOK_MS = 1_000

type MasterKey = z.infer<typeof MasterKeyResponse>['master_key']

export function toCommand(context: CliContext): Command {
  return new Command('rotate-master')
    .description(
      'Encrypt all secrets of the store with a new master key, while the gateway runs (operator key). Waits for the end.\n' +
        'A rotation that was interrupted is continued by the gateway, and by this command.',
    )
    .option('--no-wait', 'do not wait for the end')
    .action((flags: { wait: boolean }) => rotateMaster(context, flags))
}

async function rotateMaster(context: CliContext, { wait }: { wait: boolean }): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(MASTER_KEY_VIEW)
  if (!settings.dryRun) await context.confirm('Encrypt all secrets of the store with a new master key?')
  let { body, raw } = await api.send({ method: 'POST', path: ROTATE_MASTER_KEY_PATH })
  const progress = createProgress(context.io, settings)
  try {
    const keyIn = () => itemIn<MasterKey>(body, 'master_key', api.baseUrl)
    while (wait && !settings.dryRun && keyIn().rotation !== null) {
      progress.show(`Rotating the master key (${keyIn().rotation?.phase})`)
      await pause(LOOK_MS, context.io)
      ;({ body, raw } = await api.send({ method: 'GET', path: MASTER_KEY_PATH }))
    }
  } finally {
    progress.end()
  }
  if (wait && !settings.dryRun)
    await context.note('All secrets are encrypted with the new master key. Back it up, apart from the database.')
  await output.one(itemIn<MasterKey>(body, 'master_key', api.baseUrl), MASTER_KEY_VIEW, raw)
}
