/** Finds what is wrong with a gateway and its client, and says how to repair it. */
import { access } from 'node:fs/promises'
import { Command } from 'commander'
import type { CliContext } from '../../../context.ts'
import { CliError, EXIT } from '../../../errors.ts'
import { columns, flexible } from '../../../output/formats.ts'
import type { Finding } from './finding.ts'
import { checkMachine, SYSTEM_FILE } from './machine.ts'
import { checkGateway } from './remote.ts'

const VIEW = {
  columns: columns({ STATUS: 'status', CHECK: 'check', DETAIL: flexible('detail') }),
  idPath: 'check',
  members: ['check', 'status', 'detail', 'remedy'],
}

export function toCommand(context: CliContext): Command {
  return new Command('doctor')
    .description(
      'Check a gateway and this client: configuration, store, disk, clock, providers, DNS, permissions, evidence.\n' +
        'Prints a remedy for each problem. Exit 10 if a check fails.',
    )
    .option('--config <file>', `also check the gateway of this file on this machine (${SYSTEM_FILE} if it exists)`)
    .action(({ config }: { config?: string }) => runDoctor(context, config))
}

async function runDoctor(context: CliContext, config: string | undefined): Promise<void> {
  const output = await context.output()
  output.assertShowable(VIEW)
  const found: Finding[] = []
  const system = await access(SYSTEM_FILE).then(
    () => SYSTEM_FILE,
    () => undefined,
  )
  const path = config ?? system
  if (path !== undefined) for await (const finding of checkMachine(context, path)) found.push(finding)
  for await (const finding of checkGateway(context)) found.push(finding)
  await output.list(found, VIEW)
  const settings = await context.settings()
  // The table omits remedies, because most checks have none.
  if (settings.format === undefined || settings.format === 'table') {
    for (const { check, status, detail, remedy } of found) {
      if (status !== 'ok') await context.note(`${status}: ${check}: ${detail}\n  Remedy:  ${remedy}`, { lines: true })
    }
  }
  const failed = found.filter(({ status }) => status === 'fail').map(({ check }) => check)
  if (failed.length === 0) return
  throw new CliError(
    EXIT.checkFailed,
    `${failed.length} of ${found.length} checks failed: ${[...new Set(failed)].join(', ')}`,
    {
      code: 'CHECKS_FAILED',
    },
  )
}
