import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { packagePath } from './package.ts'

/** Absolute path of the daemon's program. */
export const daemonPath = (): string => packagePath('bin/aigwd.js')

/**
 * Runs the daemon on our own stdin, stdout and stderr until it ends and answers with its exit code (128 + n when signal
 * n killed it). SIGINT, SIGTERM and SIGHUP are passed on, each as often as it comes.
 */
export function runDaemon(args: string[], host: NodeJS.Process): Promise<number> {
  // A process group of its own: on Ctrl-C the terminal signals our whole group, and the daemon would count the
  // terminal's signal and the one we pass on as two, of which the second means "do not drain, stop at once".
  const child = spawn(process.execPath, [daemonPath(), ...args], { stdio: 'inherit', detached: true })
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const forward = (name: NodeJS.Signals) => void child.kill(name)
  for (const name of names) host.on(name, forward)
  return new Promise((resolve, reject) => {
    const finish = () => {
      for (const name of names) host.off(name, forward)
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
