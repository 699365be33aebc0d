/** Scans texts with POST /prompt-shield/scan. */
import { type Command, Option } from 'commander'
import type { z } from 'zod'
import type {
  ShieldLayer,
  ShieldPolicyDocument,
  ShieldScanRequest,
  ShieldScanResponse,
  ShieldSource,
} from '../../../shared/wire/shield.ts'
import type { Api } from '../../api/client.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'

export type Scan = z.infer<typeof ShieldScanResponse>
type ScanOptions = z.input<typeof ShieldScanRequest>['options']

const SENSITIVITIES: Record<ShieldPolicyDocument['sensitivity'], true> = {
  strict: true,
  balanced: true,
  permissive: true,
}
const LAYERS: Record<ShieldLayer, true> = { regex: true, heuristic: true, ml: true, llm: true }

const SOURCES: Record<ShieldSource, true> = { user: true, tool: true, retrieved: true, system: true, output: true }

export type ScanFlags = {
  policy?: string
  sensitivity?: ShieldPolicyDocument['sensitivity']
  layers?: string
}

/** Adds the options of all scans. */
export const addScanOptions = (command: Command): Command =>
  command
    .option('--policy <name>', "a prompt shield policy that the key may select (default: the key's)")
    .addOption(
      new Option('--sensitivity <level>', 'use the thresholds of this level').choices(Object.keys(SENSITIVITIES)),
    )
    .option('--layers <a,b>', `only these: ${Object.keys(LAYERS).join(', ')}`)

/** The option that names the origin of a text. */
export const sourceOption = (): Option =>
  new Option('--source <source>', 'origin of the text').choices(Object.keys(SOURCES)).default('user')

export const toScanOptions = ({ policy, sensitivity, layers }: ScanFlags): NonNullable<ScanOptions> => ({
  policy,
  sensitivityLevel: sensitivity,
  detectionLayers: layers === undefined ? undefined : toLayers(layers),
})

/** Scans a text. Throws an error with exit code 5 if the key has no shield. */
export const scan = (api: Api, prompt: string, options: ScanOptions) =>
  api
    .send<Scan>({ method: 'POST', path: 'prompt-shield/scan', json: { prompt, options }, repeatable: true })
    .catch((error: unknown) => {
      throw isWithoutShield(error) ? withoutShield(error) : error
    })

/** Throws a usage error for an unknown layer. */
function toLayers(text: string): ShieldLayer[] {
  const layers = text.split(',').flatMap((layer) => layer.trim() || [])
  const unknown = layers.find((layer) => !isLayer(layer))
  if (layers.length > 0 && layers.every(isLayer)) return layers
  throw usageError(`--layers takes ${Object.keys(LAYERS).join(', ')}, not '${unknown ?? text}'`)
}

const isLayer = (name: string): name is ShieldLayer => Object.hasOwn(LAYERS, name)

const isWithoutShield = (error: unknown): error is CliError =>
  error instanceof CliError && error.code === 'SHIELD_NOT_ENABLED'

const withoutShield = (cause: CliError): CliError =>
  new CliError(EXIT.forbidden, 'this key has no prompt shield', {
    code: cause.code,
    hints: ['Ask an administrator:  aigw keys update KEY --shield'],
    httpStatus: cause.httpStatus,
    requestId: cause.requestId,
    cause,
  })
