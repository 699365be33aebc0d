/** Makes the daemon read its configuration again. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { Reload, ReloadResponse } from '../../../shared/wire/reload.ts'
import type { CliContext } from '../../context.ts'
import { columns } from '../../output/formats.ts'
import { itemIn } from '../../resources/resolve.ts'

/** The CLI imports only types of wire/, because the schemas would slow its start. */
const RELOAD_PATH = '/api/admin/config/reload'

const VIEW = {
  columns: columns({ CHANGED: 'changed', 'NEEDS RESTART': 'needsRestart' }),
  members: ['changed', 'needsRestart'],
}

export function toCommand(context: CliContext): Command {
  return new Command('reload')
    .description(
      'Make the gateway read its configuration file and its secrets again (operator key).\n' +
        'Shows what has changed and what needs a restart. An invalid file changes nothing, and is reported with its line.\n' +
        'Of several daemons behind one address, only the one that answers is reloaded.',
    )
    .action(async () => {
      const [api, output] = await Promise.all([context.api(), context.output()])
      output.assertShowable(VIEW)
      const { body, raw } = await api.send<z.infer<typeof ReloadResponse>>({ method: 'POST', path: RELOAD_PATH })
      await context.note(body.message)
      await output.one(itemIn<Reload>(body, 'reload', api.baseUrl), VIEW, raw)
    })
}
