/** Forgets the remembered checkpoints of a gateway. */
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { countRemembered, forgetCheckpoints, openMemory } from '../../evidence/remembered.ts'

export function toCommand(context: CliContext): Command {
  return new Command('forget')
    .description(
      'Forget the checkpoints of this gateway that this machine remembers. Use this only if the gateway lost history\n' +
        'for a known reason: afterwards, the next checkpoint of each log is trusted without a proof.',
    )
    .action(() => forget(context))
}

/** Deletes the remembered checkpoints, after a confirmation. */
async function forget(context: CliContext): Promise<void> {
  const [memory, settings] = await Promise.all([openMemory(context), context.settings()])
  if (settings.dryRun)
    return context.note(`Would forget ${countRemembered(memory)} checkpoints of ${settings.baseUrl}.`)
  await context.confirm(`Forget ${countRemembered(memory)} checkpoints of ${settings.baseUrl}?`)
  await context.note(`Forgot ${await forgetCheckpoints(memory)} checkpoints of ${settings.baseUrl}.`)
}
