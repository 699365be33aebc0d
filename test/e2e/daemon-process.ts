import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const AIGWD = fileURLToPath(new URL('../../bin/aigwd.js', import.meta.url))

export type DaemonProcess = {
  url: string
  child: ChildProcess
  /** Ends the process and resolves when it is gone. */
  end(signal: NodeJS.Signals): Promise<void>
}

/** Runs the built daemon as its own process and resolves when it listens. @throws with its output when it does not. */
export async function startDaemonProcess(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<DaemonProcess> {
  const child = spawn(process.execPath, [AIGWD, '--listen', '127.0.0.1:0', ...args], {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const output: string[] = []
  child.stderr.on('data', (text) => output.push(String(text)))
  const lines = createInterface({ input: child.stdout })
  for await (const line of lines) {
    output.push(line)
    const entry: { msg?: string; url?: string } = line.startsWith('{') ? JSON.parse(line) : {}
    if (entry.msg !== 'listening' || entry.url === undefined) continue
    // Left unread, a full pipe would stop the daemon's log.
    child.stdout.resume()
    return {
      url: entry.url,
      child,
      async end(signal) {
        child.kill(signal)
        await exited
      },
    }
  }
  throw new Error(`the daemon did not start:\n${output.join('\n')}`)
}
