import { readFile } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import { unreadable, usageError } from '../../errors.ts'
import { findDuration } from '../../input/duration.ts'
import { askSecret, mayPrompt } from '../../input/prompt.ts'
import { readStdin } from '../../io.ts'

/** Bodies of ours are a few hundred bytes; this is room for those of others that are signed in the same way. */
const BODY_BYTES = 67_108_864
/** No secret is longer. */
const SECRET_BYTES = 4_096

export type SigningFlags = { secretFile?: string }

/** The body and the secret, as `sign` and `verify` both take them. */
export const addSigningOptions = (command: Command): Command =>
  command
    .argument('[file]', "the body, byte for byte; '-' or nothing for stdin", '-')
    .addOption(new Option('--secret-file <path>', "file with the signing secret, '-' for stdin (AIGW_WEBHOOK_SECRET)"))

/** The bytes of a body and the secret. Throws a usage error for what cannot be read, and for both from stdin. */
export async function readSigningInput(
  context: CliContext,
  { file, secretFile }: SigningFlags & { file: string },
): Promise<{ body: Buffer; secret: string }> {
  if (file === '-' && secretFile === '-') throw usageError('body and secret cannot both come from stdin')
  if (file === '-' && context.io.stdin.isTTY === true) {
    throw usageError('no body was given, and stdin is a terminal', ['Name the file that holds the body as received.'])
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
  if (mayPrompt(await context.settings(), io)) return toSecret(await askSecret('Signing secret:', io), 'the answer')
  throw usageError('no signing secret was given', ['Give it:  --secret-file FILE, or AIGW_WEBHOOK_SECRET'])
}

async function readBytes(context: CliContext, path: string, limit: number, what: string): Promise<Buffer> {
  if (path === '-') return readStdin(context.io, limit, what)
  return readFile(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
}

/** The secret as it is the key of a signature, without the end of its line. The message never shows it. */
function toSecret(text: string, from: string): string {
  const secret = text.trim()
  if (secret === '') throw usageError(`${from} holds no signing secret`)
  if (!/^[\x21-\x7e]+$/.test(secret)) throw usageError(`${from} is not a signing secret: one line is expected`)
  return secret
}

/** Unix seconds of a flag: `1767225600`, or `2026-01-01T00:00:00Z`. Throws a usage error for anything else. */
export function toUnixSeconds(text: string, flag: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text)
  const ms = /^\d{4}-\d{2}-\d{2}T/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(ms)) return Math.floor(ms / 1000)
  throw usageError(`${flag} must be a time, not '${text}'`, ['Write Unix seconds, or 2026-01-31T12:00:00Z.'])
}

/** Seconds of a flag: `300`, or a duration such as `5m`. Throws a usage error for anything else. */
export function toSeconds(text: string, flag: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  const durationMs = findDuration(text)
  if (durationMs !== undefined) return Math.floor(durationMs / 1000)
  throw usageError(`${flag} must be seconds or a duration, not '${text}'`, ['Write 300, 90s, 5m or 24h.'])
}
