import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { Io } from '../../io.ts'
import { packagePath } from '../../package.ts'

/** Absolute path of the daemon's program. */
export const daemonPath = (): string => packagePath('bin/aigwd.js')

/**
 * Runs the daemon on our own stdin, stdout and stderr, and returns its exit code (128 + n after signal n). Forwards
 * every SIGINT and SIGTERM. SIGHUP means that the terminal was closed, so the daemon gets SIGTERM and drains. If this process is killed, the pipe to the daemon closes and the daemon stops
 * (AIGW_PARENT_PIPE).
 */
export function runDaemon(args: string[], { env, signals }: Pick<Io, 'env' | 'signals'>): Promise<number> {
  const child = spawn(process.execPath, [daemonPath(), ...args], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    env: { ...env, AIGW_PARENT_PIPE: '3' },
    // On Ctrl-C the terminal signals our whole process group. If the daemon were in this group, it would receive the
    // signal twice, and a second signal means "stop without draining".
    detached: true,
  })
  const pipe = child.stdio[3]
  // When the daemon exits, the pipe emits an error. This error needs no handling.
  pipe?.on('error', () => {})
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const forward = (name: NodeJS.Signals) => void child.kill(name === 'SIGHUP' ? 'SIGTERM' : name)
  for (const name of names) signals.on(name, forward)
  return new Promise((resolve, reject) => {
    const finish = () => {
      for (const name of names) signals.off(name, forward)
      pipe?.destroy()
    }
    child.once('error', (error) => {
      finish()
      reject(error)
    })
    child.once('exit', (code, name) => {
      finish()
      resolve(code ?? 128 + (name === null ? 0 : constants.signals[name]))
    })
  })
}
