import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A second process running a TypeScript file of ours, for promises that only another process can test. */
export type TypescriptProcess = {
  child: ChildProcessByStdio<Writable, Readable, Readable>
  /** The next line of its output; rejects with what it wrote to stderr when it ends first. */
  line(): Promise<string>
  /** Ends it the hard way and waits until it is gone. */
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
