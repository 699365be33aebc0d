/** Scans a text with the prompt shield. */
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { addTextArgument, readTextInput } from '../../input/text-input.ts'
import { columns, eachAt, flexible } from '../../output/formats.ts'
import { addScanOptions, type ScanFlags, scan, toScanOptions } from './scan.ts'

export function toCommand(context: CliContext): Command {
  const command = new Command('check').description(
    'Scan a text with the prompt shield; it is not stored. Exit 10 if the verdict is BLOCK.',
  )
  return addScanOptions(addTextArgument(command))
    .addHelpText('after', '\nExample:\n  aigw shield check --sensitivity strict mail.txt')
    .action((file: string, flags: ScanFlags) => checkText(context, file, flags))
}

/**
 * POST /prompt-shield/scan. Throws an error with exit code 10 if the verdict is `BLOCK`, and one with exit code 5 if
 * the key has no shield.
 */
async function checkText(context: CliContext, file: string, input: ScanFlags): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const options = toScanOptions(input)
  const { body, raw } = await scan(api, await readTextInput(context, file), options)
  const { success: _, ...found } = body
  await output.one(found, VIEW, raw)
  if (found.verdict !== 'BLOCK') return
  const about = found.categoryLabel ?? found.attackCategory ?? 'no category'
  throw new CliError(EXIT.checkFailed, `the shield classifies this as an attack (${about}, score ${found.riskScore})`, {
    code: 'BLOCKED',
  })
}

const VIEW = {
  columns: columns(
    { VERDICT: 'verdict', SCORE: 'riskScore', CATEGORY: 'attackCategory', CONFIDENCE: 'confidence' },
    { SEVERITY: 'severity', RECOMMENDATION: flexible('recommendation'), FOUND: ['details', eachAt('pattern')] },
    { MS: 'latencyMs' },
  ),
}
