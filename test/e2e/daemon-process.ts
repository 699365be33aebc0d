import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { afterEach, inject } from 'vitest'
import { watchFiles } from '../kept-texts.ts'
import { secretWatch } from '../secret-watch.ts'

export type LogLine = { level: string; msg: string } & Record<string, unknown>
export type Ended = { code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string }

export type DaemonProcess = {
  child: ChildProcessByStdio<null, Readable, Readable>
  /** The next log line with this message. Rejects with the whole output if the daemon exits before. */
  logged(message: string): Promise<LogLine>
  /** The URL of the daemon once it listens. Rejects like `logged`. */
  url(): Promise<string>
  /** Resolves with the exit code and signal. */
  ended: Promise<Ended>
  /** Sends the signal and resolves when the process has exited. */
  end(signal: NodeJS.Signals): Promise<Ended>
}

export type DaemonOptions = {
  /** Added to PATH, HOME and CONFIGURATION_DIRECTORY, or overrides them. */
  env?: Record<string, string>
  /** Working directory, HOME and configuration directory, so that no settings of this machine apply. */
  home?: string
  /** A built project other than the one of the test run. */
  project?: string
}

const running = new Set<DaemonProcess>()

/** Kills all running daemons, as after each test. Hooks call it before they remove a daemon's directory. */
export async function endDaemons(): Promise<void> {
  await Promise.all([...running].map((daemon) => daemon.end('SIGKILL')))
}

afterEach(endDaemons)

/** Runs the built daemon as its own process. It also ends when this process ends for any reason. */
export function runDaemon(
  args: readonly string[],
  { env, home = tmpdir(), project = inject('builtProject') }: DaemonOptions = {},
): DaemonProcess {
  const child = spawn(process.execPath, [join(project, 'bin/aigwd.js'), ...args], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home, CONFIGURATION_DIRECTORY: home, AIGW_PARENT_PIPE: '3', ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  }) as ChildProcessByStdio<null, Readable, Readable>
  const output = { stdout: '', stderr: '' }
  child.stderr.on('data', (chunk) => {
    output.stderr += chunk
  })
  const seen: LogLine[] = []
  const waiting = new Set<() => void>()
  createInterface(child.stdout).on('line', (line) => {
    output.stdout += `${line}\n`
    if (line.startsWith('{')) seen.push(JSON.parse(line))
    for (const look of waiting) look()
  })
  for (const [name, value] of Object.entries(env ?? {})) if (name.endsWith('_KEY')) secretWatch.addSecret(name, value)
  const ended: Promise<Ended> = once(child, 'close').then(async ([code, signal]) => {
    secretWatch.record('the log of a daemon', output.stdout)
    secretWatch.record('stderr of a daemon', output.stderr)
    const dataDir = args[args.indexOf('--data-dir') + 1]
    if (args.includes('--data-dir') && dataDir !== undefined) await watchFiles(dataDir)
    return { code, signal, ...output }
  })
  const daemon: DaemonProcess = {
    child,
    ended,
    logged: (message) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const at = seen.findIndex(({ msg }) => msg === message)
          if (at < 0) return
          waiting.delete(look)
          resolve(seen.splice(at, 1)[0] as LogLine)
        }
        waiting.add(look)
        look()
        ended.then(({ stdout, stderr }) => reject(new Error(`ended without "${message}":\n${stdout}${stderr}`)))
      }),
    url: async () => String((await daemon.logged('listening')).url),
    end(signal) {
      child.kill(signal)
      return ended
    },
  }
  running.add(daemon)
  ended.then(() => running.delete(daemon))
  return daemon
}
