import { Command } from 'commander'
import { SIGNATURE_TOLERANCE_SECONDS } from '../../../shared/spec-limits.ts'
import { type SignatureVerdict, verify } from '../../../shared/webhook-signature.ts'
import { parseBody } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { findAtPath } from '../../output/formats.ts'
import { isPlain } from '../../output/output.ts'
import { addSigningOptions, readSigningInput, type SigningFlags, toSeconds, toUnixSeconds } from './signing-input.ts'

type Flags = SigningFlags & { signature?: string; tolerance: string; now?: string }
export type VerifyInput = SigningFlags & {
  file: string
  signature: string
  toleranceSeconds: number
  /** Unix seconds; the present when undefined. */
  now: number | undefined
}

const VIEW = {
  columns: [
    { path: 'valid' },
    { path: 'age_seconds', title: 'AGE (S)' },
    { path: 'event' },
    { path: 'id' },
    { path: 'timestamp' },
  ],
  idPath: 'id',
  members: ['valid', 'timestamp', 'age_seconds', 'event', 'id'],
}

export function toCommand(context: CliContext, run = verifyBody): Command {
  const command = new Command('verify').description(
    'Check the signature of a body that was received; needs no gateway. Exit 0 when it is right and fresh, else 10.',
  )
  return addSigningOptions(command)
    .option('--signature <header>', 'value of X-Service-Signature, as received')
    .option(
      '--tolerance <duration>',
      'how far its time may be away, in both directions',
      `${SIGNATURE_TOLERANCE_SECONDS}`,
    )
    .option('--now <time>', 'the time to compare with: Unix seconds or 2026-01-31T12:00:00Z (default: now)')
    .addHelpText('after', '\nExample:\n  aigw webhooks verify body.json --signature "$SIG" --secret-file hook.secret')
    .action((file: string, { signature, tolerance, now, ...flags }: Flags) => {
      if (signature === undefined)
        throw usageError('--signature is missing', ['It is the value of X-Service-Signature.'])
      return run(context, {
        ...flags,
        file,
        signature,
        toleranceSeconds: toSeconds(tolerance, '--tolerance'),
        now: now === undefined ? undefined : toUnixSeconds(now, '--now'),
      })
    })
}

/** Offline, on the raw bytes. Throws exit 10 and says which check failed. */
export async function verifyBody(context: CliContext, input: VerifyInput): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  output.assertShowable(VIEW)
  const { body, secret } = await readSigningInput(context, input)
  const { toleranceSeconds, now = Math.floor(context.io.clock.now() / 1000) } = input
  const verdict = verify(body, input.signature, [secret], { toleranceSeconds, now })
  if (!verdict.valid) throw checkFailed(verdict, toleranceSeconds)
  const event = textAt(body, 'type')
  const id = textAt(body, 'id')
  const found = { valid: true, timestamp: verdict.timestamp, age_seconds: verdict.ageSeconds, event, id }
  if (!isPlain(settings)) return output.one(found, VIEW)
  const named = event === null || id === null ? '' : `, event ${event} (${id})`
  await output.text(`ok: signature valid, ${toAge(verdict.ageSeconds)}${named}\n`)
}

/** A body may be signed and still be no event of ours. */
function textAt(body: Buffer, path: string): string | null {
  const value = findAtPath(parseBody(body), path)
  return typeof value === 'string' ? value : null
}

const toAge = (seconds: number): string => (seconds < 0 ? `${-seconds} s ahead` : `${seconds} s old`)

function checkFailed(verdict: SignatureVerdict & { valid: false }, toleranceSeconds: number): CliError {
  const fail = (message: string, hints: string[]) =>
    new CliError(EXIT.checkFailed, message, { code: verdict.reason.toUpperCase(), hints })
  switch (verdict.reason) {
    case 'malformed_header':
      return fail(`the signature cannot be read: ${verdict.message}`, ['It looks like:  t=1767225600,v1=5d41…'])
    case 'signature_mismatch':
      return fail('the signature does not match this body and secret', [
        'Is the body byte for byte as received? Parsing and writing it again changes it.',
        'Is the secret the one that was shown when the endpoint was made or last rotated?',
      ])
    case 'timestamp_outside_tolerance':
      return fail(
        `timestamp is ${toAge(verdict.ageSeconds)}, tolerance is ${toleranceSeconds} s (the signature itself is correct)`,
        ['An old delivery:  --tolerance 24h, or --now TIME', 'A fresh one:      is a clock wrong?'],
      )
  }
}
