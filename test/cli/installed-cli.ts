import { type ChildProcess, execFile, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, cp, mkdir, mkdtemp, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { KEY } from './fake-gateway.ts'

const project = fileURLToPath(new URL('../..', import.meta.url))

export type Ended = { exitCode: number | null; signal: string | null; stdout: string; stderr: string }
export type Running = { child: ChildProcess; ended: Promise<Ended> }
export type StartOptions = { env?: Record<string, string>; stdio?: StdioOptions; input?: string | Buffer }

export type InstalledCli = {
  folder: string
  /** Starts `node bin/aigw.js` as its own process; stdin is `/dev/null` unless there is input. */
  start(words: readonly string[], options?: StartOptions): Running
  run(words: readonly string[], options?: StartOptions): Promise<Ended>
  remove(): Promise<void>
}

/** What a user has: bin/, deploy/ and a freshly built dist/, away from whatever the checkout holds at this moment. */
export async function installCli(): Promise<InstalledCli> {
  const folder = await mkdtemp(join(tmpdir(), 'aigw-installed-'))
  await mkdir(join(folder, 'bin'))
  await copyFile(join(project, 'bin/aigw.js'), join(folder, 'bin/aigw.js'))
  await copyFile(join(project, 'package.json'), join(folder, 'package.json'))
  await cp(join(project, 'deploy'), join(folder, 'deploy'), { recursive: true })
  await symlink(join(project, 'node_modules'), join(folder, 'node_modules'))
  const build = ['-p', join(project, 'tsconfig.build.json'), '--outDir', join(folder, 'dist')]
  // The types of the whole tree are another check's business; here it only matters that the program is there.
  await promisify(execFile)(join(project, 'node_modules/.bin/tsc'), build).catch(() =>
    stat(join(folder, 'dist/cli/main.js')),
  )

  const start = (words: readonly string[], { env = {}, stdio, input }: StartOptions = {}): Running => {
    const child = spawn(process.execPath, [join(folder, 'bin/aigw.js'), ...words], {
      env: { PATH: process.env.PATH ?? '', HOME: folder, AIGW_API_KEY: KEY, ...env },
      stdio: stdio ?? [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    })
    const text = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (chunk: string) => {
        text[name] += chunk
      })
    }
    // A program that ends early may leave its input unread.
    child.stdin?.on('error', () => {}).end(input)
    const ended = once(child, 'close').then(([exitCode, signal]) => ({ exitCode, signal, ...text }))
    return { child, ended }
  }
  return {
    folder,
    start,
    run: (words, options) => start(words, options).ended,
    remove: () => rm(folder, { recursive: true }),
  }
}
