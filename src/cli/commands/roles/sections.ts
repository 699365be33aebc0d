import { Command } from 'commander'
import { LEVELS, SECTIONS } from '../../../shared/permissions.ts'
import type { CliContext } from '../../context.ts'

const VIEW = {
  columns: [{ path: 'section' }, { path: 'levels' }],
  idPath: 'section',
}

export function sectionsCommand(context: CliContext, run = listSections): Command {
  return new Command('sections')
    .description('List the sections of the administration and the levels a role may have in each. Needs no gateway.')
    .action(() => run(context))
}

/** Offline: the sections are part of the contract. */
export async function listSections(context: CliContext): Promise<void> {
  const output = await context.output()
  await output.list(
    SECTIONS.map((section) => ({ section, levels: LEVELS })),
    VIEW,
  )
}
