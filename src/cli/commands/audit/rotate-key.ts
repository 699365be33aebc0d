/** Rotates the signing key of evidence. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { RotateSigningKeyResponse } from '../../../shared/wire/evidence.ts'
import type { CliContext } from '../../context.ts'
import { TRANSPARENCY } from '../../evidence/gateway-source.ts'
import { itemIn } from '../../resources/resolve.ts'

const MEMBERS = ['kid', 'name', 'created_at']
const VIEW = { idPath: 'kid', members: MEMBERS, columns: MEMBERS.map((path) => ({ path })) }

type Key = z.infer<typeof RotateSigningKeyResponse>['key']

export function toCommand(context: CliContext): Command {
  return new Command('rotate-key')
    .description(
      'Sign evidence with a new key from now on (operator key). The old key stays published, so that its signatures can\n' +
        'still be verified.',
    )
    .action(() => rotateKey(context))
}

/** POST /transparency/keys/rotate, after a confirmation. */
async function rotateKey(context: CliContext): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  if (!settings.dryRun) await context.confirm('Retire the key that signs evidence, for every tenant?')
  const { body, raw } = await api.send({ method: 'POST', path: `${TRANSPARENCY}/keys/rotate` })
  await context.note('Evidence is now signed with a new key. Give it to everyone who verifies evidence.')
  await output.one(itemIn<Key>(body, 'key', api.baseUrl), VIEW, raw)
}
