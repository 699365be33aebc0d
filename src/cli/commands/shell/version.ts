import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { columns } from '../../output/formats.ts'
import { packageVersion } from '../../package.ts'

const VIEW = { columns: columns({ VERSION: 'version', NODE: 'node', PLATFORM: 'platform' }), idPath: 'version' }

export function toCommand(context: CliContext): Command {
  return new Command('version')
    .description('Print the version of aigw, of Node and the platform.')
    .action(() => showVersion(context))
}

/** Prints `aigw 1.2.3`, or the fields in the chosen format. */
async function showVersion(context: CliContext): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const plain = settings.format === undefined && settings.field === undefined && settings.fields.length === 0
  if (plain && !settings.raw) return output.text(`aigw ${packageVersion()}\n`)
  await output.one(
    { version: packageVersion(), node: process.versions.node, platform: `${process.platform} ${process.arch}` },
    VIEW,
  )
}
