import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A second process that runs a TypeScript file, for tests of promises between processes. */
export type TypescriptProcess = {
  child: ChildProcessByStdio<Writable, Readable, Readable>
  /** Resolves to the next line of stdout. Rejects with the stderr output if the process exits first. */
  line(): Promise<string>
  /** Kills the process with SIGKILL and waits for its exit. */
  kill(signal?: NodeJS.Signals): Promise<void>
}

const loader = fileURLToPath(new URL('typescript-loader.mjs', import.meta.url))

export function startTypescript(file: URL, args: readonly string[]): TypescriptProcess {
  const child = spawn(process.execPath, ['--import', loader, fileURLToPath(file), ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  return {
    child,
    async line() {
      const next = await lines.next()
      if (next.done) throw new Error(`the process ended: ${errors}`)
      return next.value
    },
    async kill(signal = 'SIGKILL') {
      child.kill(signal)
      await exited
    },
  }
}
