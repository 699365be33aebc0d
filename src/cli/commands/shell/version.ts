import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { packageVersion } from '../../package.ts'

const VIEW = { columns: [{ path: 'version' }, { path: 'node' }, { path: 'platform' }], idPath: 'version' }

export function toCommand(context: CliContext, run = showVersion): Command {
  return new Command('version')
    .description('Print the version of aigw and of what it runs on.')
    .action(() => run(context))
}

/** A person gets `aigw 1.2.3`, every format its fields. */
export async function showVersion(context: CliContext): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const plain = settings.format === undefined && settings.field === undefined && settings.fields.length === 0
  if (plain && !settings.raw) return output.text(`aigw ${packageVersion()}\n`)
  await output.one(
    { version: packageVersion(), node: process.versions.node, platform: `${process.platform} ${process.arch}` },
    VIEW,
  )
}
