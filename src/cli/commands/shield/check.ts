/** Scans a text with the prompt shield. */
import { Command, Option } from 'commander'
import type { z } from 'zod'
import type { ShieldLayer, ShieldPolicyDocument, ShieldScanResponse } from '../../../shared/wire/shield.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { addTextArgument, readTextInput } from '../../input/text-input.ts'
import { columns, eachAt, flexible } from '../../output/formats.ts'

type Scan = z.infer<typeof ShieldScanResponse>

const SENSITIVITIES: Record<ShieldPolicyDocument['sensitivity'], true> = {
  strict: true,
  balanced: true,
  permissive: true,
}
const LAYERS: Record<ShieldLayer, true> = { regex: true, heuristic: true, ml: true, llm: true }

type Flags = { policy?: string; sensitivity?: string; layers?: string }

export function toCommand(context: CliContext): Command {
  const command = new Command('check').description(
    'Scan a text with the prompt shield; it is not stored. Exit 10 if the verdict is BLOCK.',
  )
  return addTextArgument(command)
    .option('--policy <name>', "a prompt shield policy that the key may select (default: the key's)")
    .addOption(
      new Option('--sensitivity <level>', 'use the thresholds of this level').choices(Object.keys(SENSITIVITIES)),
    )
    .option('--layers <a,b>', `only these: ${Object.keys(LAYERS).join(', ')}`)
    .addHelpText('after', '\nExample:\n  aigw shield check --sensitivity strict mail.txt')
    .action((file: string, flags: Flags) => checkText(context, file, flags))
}

/**
 * POST /prompt-shield/scan. Throws an error with exit code 10 if the verdict is `BLOCK`, and one with exit code 5 if
 * the key has no shield.
 */
async function checkText(context: CliContext, file: string, input: Flags): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const options = {
    policy: input.policy,
    sensitivityLevel: input.sensitivity,
    detectionLayers: input.layers === undefined ? undefined : toLayers(input.layers),
  }
  const prompt = await readTextInput(context, file)
  const request = { method: 'POST', path: 'prompt-shield/scan', json: { prompt, options }, repeatable: true }
  const { body, raw } = await api.send<Scan>(request).catch((error: unknown) => {
    throw isWithoutShield(error) ? withoutShield(error) : error
  })
  const { success: _, ...found } = body
  await output.one(found, VIEW, raw)
  if (found.verdict !== 'BLOCK') return
  const about = found.categoryLabel ?? found.attackCategory ?? 'no category'
  throw new CliError(EXIT.checkFailed, `the shield classifies this as an attack (${about}, score ${found.riskScore})`, {
    code: 'BLOCKED',
  })
}

/** Throws a usage error for an unknown layer. */
function toLayers(text: string): string[] {
  const layers = text.split(',').flatMap((layer) => layer.trim() || [])
  const unknown = layers.find((layer) => !Object.hasOwn(LAYERS, layer))
  if (unknown === undefined && layers.length > 0) return layers
  throw usageError(`--layers takes ${Object.keys(LAYERS).join(', ')}, not '${unknown ?? text}'`)
}

/** The gateway's error label. */
const NOT_ENABLED = 'Prompt Shield not enabled for this key'
const isWithoutShield = (error: unknown): error is CliError => error instanceof CliError && error.code === NOT_ENABLED

const withoutShield = (cause: CliError): CliError =>
  new CliError(EXIT.forbidden, 'this key has no prompt shield', {
    code: cause.code,
    hints: ['Ask an administrator:  aigw keys update KEY --shield'],
    httpStatus: cause.httpStatus,
    requestId: cause.requestId,
    cause,
  })

const VIEW = {
  columns: columns(
    { VERDICT: 'verdict', SCORE: 'riskScore', CATEGORY: 'attackCategory', CONFIDENCE: 'confidence' },
    { SEVERITY: 'severity', RECOMMENDATION: flexible('recommendation'), FOUND: ['details', eachAt('pattern')] },
    { MS: 'latencyMs' },
  ),
}
