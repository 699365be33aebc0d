/** Validates a configuration file of the gateway with the daemon's own check. */
import { execFile } from 'node:child_process'
import { dirname, resolve } from 'node:path'
import { CliError, EXIT, usageError } from '../../errors.ts'
import type { Io } from '../../io.ts'
import { daemonPath } from './daemon-process.ts'

/** The exit code of the daemon for an invalid configuration. */
const INVALID = 78
const CHECK_MS = 60_000

/**
 * Returns the folder of a configuration's secrets. `aigw init` writes them there, and the unit loads credentials from
 * there.
 */
export const secretsFolder = (config: string): string => resolve(dirname(config), 'secrets')

/**
 * Returns the faults of a configuration file, one text for each. Credentials of systemd are read from the folder of
 * secrets. Throws an error if the daemon cannot run.
 */
export function findConfigFaults(path: string, { env, signal }: Pick<Io, 'env' | 'signal'>): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const words = [daemonPath(), '--check', '--config', path]
    const withCredentials = { ...env, CREDENTIALS_DIRECTORY: env.CREDENTIALS_DIRECTORY || secretsFolder(path) }
    execFile(process.execPath, words, { env: withCredentials, signal, timeout: CHECK_MS }, (error, _, stderr) => {
      if (error === null) return resolve([])
      const faults = stderr.split('\n').flatMap((line) => /^aigwd: (.*)$/.exec(line)?.[1] ?? [])
      if (error.code === INVALID && faults.length > 0) return resolve(faults)
      reject(
        new CliError(EXIT.error, `the daemon could not check the configuration (${error.code ?? error.signal})`, {
          code: 'DAEMON_FAILED',
          hints: [`Run it by hand:  aigwd --check --config ${path}`],
        }),
      )
    })
  })
}

/** Throws a usage error with all faults of a draft. `path` is the file that the draft would replace. */
export async function assertConfig(draft: string, path: string, io: Pick<Io, 'env' | 'signal'>): Promise<void> {
  const faults = await findConfigFaults(draft, io)
  if (faults.length === 0) return
  throw usageError(
    `the configuration would be invalid, so ${path} was not changed`,
    faults.map((fault) => fault.replaceAll(draft, path)),
  )
}
