/** Signs and verifies webhook bodies, without a gateway. */
import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { SIGNATURE_TOLERANCE_SECONDS } from '../../../shared/spec-limits.ts'
import type { SignatureVerdict } from '../../../shared/webhook-signature.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, failedToRead, usageError } from '../../errors.ts'
import { toSeconds, toUnixSeconds } from '../../input/duration.ts'
import { readStdin } from '../../io.ts'
import { columns, findAtPath } from '../../output/formats.ts'

const signing = () => import('../../../shared/webhook-signature.ts')

export const commands = { verify: verifyCommand, sign: signCommand }

type SigningFlags = { secretFile?: string }

const signingCommand = (name: string, description: string): Command =>
  new Command(name)
    .description(description)
    .argument('[file]', "the body, byte for byte; '-' or nothing for stdin", '-')
    .option('--secret-file <path>', "file with the signing secret, '-' for stdin (AIGW_WEBHOOK_SECRET)")

const SIGNED_VIEW = {
  columns: columns({ SIGNATURE: 'signature', TIMESTAMP: 'timestamp' }),
  members: ['signature', 'timestamp'],
}

function signCommand(context: CliContext): Command {
  const description = 'Print the X-Service-Signature of a body, as the gateway would send it; needs no gateway.'
  return signingCommand('sign', description)
    .option('--timestamp <time>', 'time of the signature: Unix seconds or 2026-01-31T12:00:00Z (default: now)')
    .addHelpText(
      'after',
      '\nExample:\n  curl --data-binary @body.json -H "X-Service-Signature: $(aigw webhooks sign body.json --secret-file hook.secret)" …',
    )
    .action(async (file: string, flags: SigningFlags & { timestamp?: string }) => {
      const timestamp = secondsOf(context, flags.timestamp, '--timestamp')
      const output = await context.output()
      output.assertShowable(SIGNED_VIEW)
      const { body, secret } = await readSigningInput(context, file, flags)
      const { sign } = await signing()
      const signature = sign(body, [secret], timestamp)
      await output.textOrOne(`${signature}\n`, { signature, timestamp }, SIGNED_VIEW)
    })
}

const VERIFIED_VIEW = {
  columns: columns({ VALID: 'valid', 'AGE (S)': 'age_seconds', EVENT: 'event', ID: 'id', TIMESTAMP: 'timestamp' }),
  idPath: 'id',
  members: ['valid', 'timestamp', 'age_seconds', 'event', 'id'],
}

type VerifyFlags = SigningFlags & { signature?: string; tolerance: string; now?: string }

/** If a check fails, throws an error with exit code 10 that names the check. */
function verifyCommand(context: CliContext): Command {
  const description =
    'Verify the signature of a received body; needs no gateway. Exit 0 if it is valid and recent, else 10.'
  return signingCommand('verify', description)
    .option('--signature <header>', 'value of X-Service-Signature, as received')
    .option(
      '--tolerance <duration>',
      'allowed age of the timestamp, in both directions',
      `${SIGNATURE_TOLERANCE_SECONDS}`,
    )
    .option('--now <time>', 'the time to compare with: Unix seconds or 2026-01-31T12:00:00Z (default: now)')
    .addHelpText('after', '\nExample:\n  aigw webhooks verify body.json --signature "$SIG" --secret-file hook.secret')
    .action(async (file: string, flags: VerifyFlags) => {
      const { signature } = flags
      if (signature === undefined)
        throw usageError('--signature is missing', ['It is the value of X-Service-Signature.'])
      const toleranceSeconds = toSeconds(flags.tolerance, '--tolerance')
      const now = secondsOf(context, flags.now, '--now')
      const output = await context.output()
      output.assertShowable(VERIFIED_VIEW)
      const { body, secret } = await readSigningInput(context, file, flags)
      const { verify } = await signing()
      const verdict = verify(body, signature, [secret], { toleranceSeconds, now })
      if (!verdict.valid) throw checkFailed(verdict, toleranceSeconds)
      const { timestamp, ageSeconds } = verdict
      const event = textAt(body, 'type')
      const id = textAt(body, 'id')
      const named = event === null || id === null ? '' : `, event ${event} (${id})`
      const found = { valid: true, timestamp, age_seconds: ageSeconds, event, id }
      await output.textOrOne(`ok: signature valid, ${toAge(ageSeconds)}${named}\n`, found, VERIFIED_VIEW)
    })
}

/**
 * Returns the text at a path of the body. Returns null if the text is missing, because bodies of other senders may have
 * other formats.
 */
function textAt(body: Buffer, path: string): string | null {
  try {
    const value = findAtPath(JSON.parse(body.toString()), path)
    return typeof value === 'string' ? value : null
  } catch {
    return null
  }
}

const toAge = (seconds: number): string => (seconds < 0 ? `${-seconds} s ahead` : `${seconds} s old`)

const CODES = {
  malformed_header: 'MALFORMED_HEADER',
  signature_mismatch: 'SIGNATURE_MISMATCH',
  timestamp_outside_tolerance: 'TIMESTAMP_OUTSIDE_TOLERANCE',
} as const

function checkFailed(verdict: SignatureVerdict & { valid: false }, toleranceSeconds: number): CliError {
  const fail = (message: string, hints: string[]) =>
    new CliError(EXIT.checkFailed, message, { code: CODES[verdict.reason], hints })
  switch (verdict.reason) {
    case 'malformed_header':
      return fail(`the signature cannot be read: ${verdict.message}`, ['It looks like:  t=1767225600,v1=5d41…'])
    case 'signature_mismatch':
      return fail('the signature does not match this body and secret', [
        'Is the body byte for byte as received? Parsing and serialising changes it.',
        'Is the secret the one that was shown when the endpoint was created or last rotated?',
      ])
    case 'timestamp_outside_tolerance':
      return fail(
        `timestamp is ${toAge(verdict.ageSeconds)}, tolerance is ${toleranceSeconds} s (the signature itself is correct)`,
        ['An old delivery:  --tolerance 24h, or --now TIME', 'A recent one:     is a clock wrong?'],
      )
  }
}

/** Returns the time of a flag in Unix seconds. Defaults to the current time. */
const secondsOf = ({ io }: CliContext, text: string | undefined, flag: string): number =>
  text === undefined ? Math.floor(io.clock.now() / 1000) : toUnixSeconds(text, flag)

/** Maximum size of a body. Other senders with the same signature scheme may send larger bodies than the gateway. */
const BODY_BYTES = 67_108_864
/** Longer than any secret. */
const SECRET_BYTES = 4_096

/**
 * Reads the bytes of a body and the secret. Throws a usage error if a file is unreadable, or if the body and the secret
 * both come from stdin.
 */
async function readSigningInput(
  context: CliContext,
  file: string,
  { secretFile }: SigningFlags,
): Promise<{ body: Buffer; secret: string }> {
  if (file === '-' && secretFile === '-') throw usageError('body and secret cannot both come from stdin')
  if (file === '-' && context.io.stdin.isTTY === true) {
    throw usageError('no body was given, and stdin is a terminal', ['Name the file with the body as received.'])
  }
  const secret = await findSecret(context, secretFile)
  return { body: await readBytes(context, file, BODY_BYTES, 'the body'), secret }
}

async function findSecret(context: CliContext, secretFile: string | undefined): Promise<string> {
  const { io } = context
  if (secretFile !== undefined) {
    const from = secretFile === '-' ? 'stdin' : secretFile
    return toSecret((await readBytes(context, secretFile, SECRET_BYTES, 'the secret')).toString(), from)
  }
  const inEnvironment = io.env.AIGW_WEBHOOK_SECRET ?? ''
  if (inEnvironment !== '') return toSecret(inEnvironment, 'AIGW_WEBHOOK_SECRET')
  const { askSecret, mayPrompt } = await import('../../input/prompt.ts')
  if (mayPrompt(await context.settings(), io)) return toSecret(await askSecret('Signing secret:', io), 'the answer')
  throw usageError('no signing secret was given', ['Give it:  --secret-file FILE, or AIGW_WEBHOOK_SECRET'])
}

const readBytes = (context: CliContext, path: string, limit: number, what: string): Promise<Buffer> =>
  path === '-' ? readStdin(context.io, limit, what) : readFile(path).catch(failedToRead(path))

/** Reads the secret and removes the line break at its end. Errors never contain the secret. */
function toSecret(text: string, from: string): string {
  const secret = text.trim()
  if (secret === '') throw usageError(`${from} contains no signing secret`)
  if (!/^[\x21-\x7e]+$/.test(secret)) throw usageError(`${from} is not a signing secret: one line is expected`)
  return secret
}
