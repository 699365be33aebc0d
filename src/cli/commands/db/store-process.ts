/** Runs `aigwd db`, which works on the store itself. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { CliError, EXIT } from '../../errors.ts'
import type { Io } from '../../io.ts'
import { daemonPath } from '../gateway/daemon-process.ts'

export type DbFlags = Record<string, string | boolean | string[] | undefined>

/** The exit code of the daemon for an invalid configuration, and for faults of the command line. */
const INVALID = 78
/** The exit code of a check that found a problem. Its report is complete. */
const PROBLEM = 10

/**
 * Returns the report of `aigwd db NAME`. A backup to stdout has no report: the process writes to our own stdout.
 * @throws CliError with the message of the process
 */
export async function runStoreCommand(
  { env, signals }: Pick<Io, 'env' | 'signals'>,
  name: string,
  flags: DbFlags,
  words: string[] = [],
): Promise<{ report: object; exitCode: number }> {
  const isStream = words.includes('-') && name === 'backup'
  const child = spawn(process.execPath, [daemonPath(), 'db', name, ...words, ...toWords(flags)], {
    env,
    stdio: ['inherit', isStream ? 'inherit' : 'pipe', 'pipe'],
  })
  const text = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream]?.setEncoding('utf8').on('data', (chunk: string) => {
      text[stream] += chunk
    })
  const forward = (signal: NodeJS.Signals) => void child.kill(signal)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) signals.on(signal, forward)
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  for (const signal of ['SIGINT', 'SIGTERM'] as const) signals.off(signal, forward)
  if (code !== 0 && code !== PROBLEM) throw toError(name, text.stderr, code, signal)
  return { report: isStream ? {} : JSON.parse(text.stdout || '{}'), exitCode: code }
}

function toError(name: string, stderr: string, code: number | null, signal: NodeJS.Signals | null): CliError {
  const lines = stderr.split('\n').flatMap((line) => /^aigwd: (.*)$/.exec(line)?.[1] ?? [])
  const message = lines.join('; ') || `aigwd db ${name} ended with ${code ?? signal}`
  const isUsage = code === EXIT.usage || code === INVALID
  return new CliError(isUsage ? EXIT.usage : EXIT.error, message, { code: isUsage ? 'USAGE' : 'DAEMON_FAILED' })
}

/** The flags of the process by their names here. Global flags are not passed on. */
const FLAGS: Record<string, string> = {
  config: '--config',
  dataDir: '--data-dir',
  keep: '--keep',
  recipient: '--recipient',
  passphraseFile: '--passphrase-file',
  unencrypted: '--unencrypted',
  withMasterKey: '--with-master-key',
  identity: '--identity',
  acceptProblems: '--accept-problems',
}

function toWords(flags: DbFlags): string[] {
  return Object.entries(FLAGS).flatMap(([name, word]) => {
    const value = flags[name]
    if (value === undefined || value === false) return []
    if (value === true) return [word]
    return [value].flat().flatMap((one) => [word, one])
  })
}
