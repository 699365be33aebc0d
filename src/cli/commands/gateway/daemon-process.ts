import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { Io } from '../../io.ts'
import { packagePath } from '../../package.ts'

/** Absolute path of the daemon's program. */
export const daemonPath = (): string => packagePath('bin/aigwd.js')

/**
 * Runs the daemon on our own stdin, stdout and stderr until it ends and answers with its exit code (128 + n when signal
 * n killed it). SIGINT, SIGTERM and SIGHUP are passed on, each as often as it comes. The daemon also stops when we are
 * killed: it holds the other end of a pipe (AIGW_PARENT_PIPE names its descriptor) that closes with us.
 */
export function runDaemon(args: string[], { env, signals }: Pick<Io, 'env' | 'signals'>): Promise<number> {
  const child = spawn(process.execPath, [daemonPath(), ...args], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    env: { ...env, AIGW_PARENT_PIPE: '3' },
    // A process group of its own: on Ctrl-C the terminal signals our whole group, and the daemon would count the
    // terminal's signal and the one we pass on as two, of which the second means "do not drain, stop at once".
    detached: true,
  })
  const pipe = child.stdio[3]
  // The daemon's end of it goes with the daemon, which is no fault.
  pipe?.on('error', () => {})
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const forward = (name: NodeJS.Signals) => void child.kill(name)
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
