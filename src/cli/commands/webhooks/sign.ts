import { Command } from 'commander'
import { sign } from '../../../shared/webhook-signature.ts'
import type { CliContext } from '../../context.ts'
import { isPlain } from '../../output/output.ts'
import { addSigningOptions, readSigningInput, type SigningFlags, toUnixSeconds } from './signing-input.ts'

export type SignInput = SigningFlags & {
  file: string
  /** Unix seconds; the present when undefined. */
  timestamp: number | undefined
}

const VIEW = { columns: [{ path: 'signature' }, { path: 'timestamp' }], members: ['signature', 'timestamp'] }

export function toCommand(context: CliContext, run = signBody): Command {
  const command = new Command('sign').description(
    'Print the X-Service-Signature of a body, as the gateway would send it; needs no gateway.',
  )
  return addSigningOptions(command)
    .option('--timestamp <time>', 'when it is signed: Unix seconds or 2026-01-31T12:00:00Z (default: now)')
    .addHelpText(
      'after',
      '\nExample:\n  curl --data-binary @body.json -H "X-Service-Signature: $(aigw webhooks sign body.json --secret-file hook.secret)" …',
    )
    .action((file: string, { timestamp, ...flags }: SigningFlags & { timestamp?: string }) =>
      run(context, {
        ...flags,
        file,
        timestamp: timestamp === undefined ? undefined : toUnixSeconds(timestamp, '--timestamp'),
      }),
    )
}

/** Offline, on the raw bytes. */
export async function signBody(context: CliContext, input: SignInput): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  output.assertShowable(VIEW)
  const { body, secret } = await readSigningInput(context, input)
  const timestamp = input.timestamp ?? Math.floor(context.io.clock.now() / 1000)
  const signature = sign(body, [secret], timestamp)
  await (isPlain(settings) ? output.text(`${signature}\n`) : output.one({ signature, timestamp }, VIEW))
}
