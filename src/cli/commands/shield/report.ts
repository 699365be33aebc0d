/** Keeps texts that the prompt shield judged wrongly, in a local file. */
import { join } from 'node:path'
import { Command, Option } from 'commander'
import type { ShieldSource } from '../../../shared/wire/shield.ts'
import type { CliContext } from '../../context.ts'
import { failedToWrite, usageError } from '../../errors.ts'
import { addTextOrFile, readTextOrFile } from '../../input/text-input.ts'
import { columns } from '../../output/formats.ts'
import { appendState, findStateDir } from '../../profile/state-files.ts'
import { sourceOption } from './scan.ts'

type Flags = { falseAlarm?: true; miss?: true; file?: string; source: ShieldSource; to?: string }

export function toCommand(context: CliContext): Command {
  const command = new Command('report').description(
    'Add a text that the prompt shield judged wrongly to a local file. The file contains the text. Nothing is sent.',
  )
  return addTextOrFile(command)
    .addOption(new Option('--false-alarm', 'the text is harmless').conflicts('miss'))
    .option('--miss', 'the text is an attack')
    .addOption(sourceOption())
    .option('--to <path>', 'the file (default: shield-reports.jsonl in the state folder of aigw)')
    .addHelpText('after', '\nExample:\n  aigw shield report --false-alarm -f mail.txt')
    .action((text: string | undefined, flags: Flags) => reportText(context, text, flags))
}

/** Appends one JSON line in the format of `prompt_shield.model.examples`. */
async function reportText(context: CliContext, given: string | undefined, flags: Flags): Promise<void> {
  if (!flags.falseAlarm && !flags.miss) {
    throw usageError('say what is wrong with the verdict', [
      'Use --false-alarm for a harmless text, --miss for an attack.',
    ])
  }
  const output = await context.output()
  output.assertShowable(VIEW)
  const path = flags.to ?? (await defaultPath(context))
  const text = await readTextOrFile(context, given, flags.file)
  const report = { text, label: flags.miss ? 1 : 0, source: flags.source, kind: 'report' }
  await appendState(path, `${JSON.stringify(report)}\n`).catch(failedToWrite(path))
  await output.textOrOne(`${path}\n`, { path, label: report.label, source: report.source }, VIEW)
}

async function defaultPath({ io }: CliContext): Promise<string> {
  // AIGW_NO_HISTORY stops only what is stored without a request.
  const folder = await findStateDir({ ...io.env, AIGW_NO_HISTORY: '' })
  if (folder === undefined) throw usageError('this user has no state folder', ['Name the file:  --to FILE'])
  return join(folder, 'shield-reports.jsonl')
}

const VIEW = {
  columns: columns({ PATH: 'path', LABEL: 'label', SOURCE: 'source' }),
  members: ['path', 'label', 'source'],
}
