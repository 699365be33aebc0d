import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { secretWatch } from '../secret-watch.ts'
import { KEY } from './fake-gateway.ts'

export type Ended = { exitCode: number | null; signal: string | null; stdout: string; stderr: string }
export type Running = { child: ChildProcess; ended: Promise<Ended> }
export type StartOptions = { env?: Record<string, string>; stdio?: StdioOptions; input?: string | Buffer }

export type InstalledCli = {
  folder: string
  /** Starts `node bin/aigw.js` as its own process; stdin is `/dev/null` unless there is input. */
  start(words: readonly string[], options?: StartOptions): Running
  run(words: readonly string[], options?: StartOptions): Promise<Ended>
  /** Ends what still runs and removes the copy. */
  remove(): Promise<void>
}

/** A copy of the built project for one test file, which may change it. */
export async function installCli(): Promise<InstalledCli> {
  const folder = await mkdtemp(join(tmpdir(), 'aigw-installed-'))
  await cp(inject('builtProject'), folder, { recursive: true })

  const running = new Set<ChildProcess>()
  const start = (words: readonly string[], { env = {}, stdio, input }: StartOptions = {}): Running => {
    const child = spawn(process.execPath, [join(folder, 'bin/aigw.js'), ...words], {
      env: { PATH: process.env.PATH ?? '', HOME: folder, AIGW_API_KEY: KEY, ...env },
      stdio: stdio ?? [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    })
    running.add(child)
    child.once('exit', () => running.delete(child))
    const text = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (chunk: string) => {
        text[name] += chunk
      })
    }
    // A program that ends early may leave its input unread.
    child.stdin?.on('error', () => {}).end(input)
    const ended = once(child, 'close').then(([exitCode, signal]) => {
      secretWatch.addSecret('an API key', KEY)
      secretWatch.record(`stderr of the installed ${words.slice(0, 2).join(' ')}`, text.stderr, {
        mayContainText: true,
      })
      return { exitCode, signal, ...text }
    })
    return { child, ended }
  }
  return {
    folder,
    start,
    run: (words, options) => start(words, options).ended,
    async remove() {
      // Only what a failed test left; a daemon that one of them started ends with it.
      for (const child of running) child.kill('SIGKILL')
      await rm(folder, { recursive: true })
    },
  }
}
