import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { request } from 'undici'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newApiKey } from '../../src/shared/ids.ts'
import { postgresEngine } from '../engines.ts'
import { startUpstream, type Upstream } from '../upstream.ts'

const project = fileURLToPath(new URL('../..', import.meta.url))
const CHAT = '/api/external/chat/completions'
/** Right after the start, before V8's first collection at rest, which brings it down to about 76 MB. */
const RSS_LIMIT_KB = 110 * 1024

type LogLine = { level: string; msg: string } & Record<string, unknown>
type Daemon = {
  child: ChildProcess
  /** The next log line with this message; rejects with everything that was written when the daemon ends without it. */
  logged(message: string): Promise<LogLine>
  /** Resolves with how it ended. */
  ended: Promise<{ code: number | null; signal: string | null; stdout: string; stderr: string }>
}

let installed: string
let scratch: string
let dataDir: string
const started: Daemon[] = []

// What a user has: bin/ and a dist/ that the build made, away from whatever the checkout holds at this moment.
beforeAll(async () => {
  installed = await mkdtemp(join(tmpdir(), 'aigw-installed-'))
  await mkdir(join(installed, 'bin'))
  await copyFile(join(project, 'bin/aigwd.js'), join(installed, 'bin/aigwd.js'))
  await copyFile(join(project, 'package.json'), join(installed, 'package.json'))
  await symlink(join(project, 'node_modules'), join(installed, 'node_modules'))
  const build = ['tsc', '-p', join(project, 'tsconfig.build.json'), '--outDir', join(installed, 'dist')]
  await promisify(execFile)('npx', build, { cwd: project })
}, 60_000)
afterAll(() => rm(installed, { recursive: true }))

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  dataDir = join(scratch, 'state')
})
afterEach(async () => {
  for (const { child, ended } of started.splice(0)) {
    child.kill('SIGKILL')
    await ended
  }
  await rm(scratch, { recursive: true })
})

function run(args: readonly string[], env: Record<string, string> = {}): Daemon {
  const child = spawn(process.execPath, [join(installed, 'bin/aigwd.js'), ...args], {
    cwd: scratch,
    env: { PATH: process.env.PATH, HOME: scratch, CONFIGURATION_DIRECTORY: scratch, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
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
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, ...output }))
  const daemon: Daemon = {
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
  }
  started.push(daemon)
  return daemon
}

const serve = (args: readonly string[] = [], env: Record<string, string> = {}) =>
  run(['--listen', '127.0.0.1:0', '--data-dir', dataDir, ...args], env)

const urlOf = async (daemon: Daemon) => String((await daemon.logged('listening')).url)

async function whoami(url: string, key: string): Promise<number> {
  const response = await request(`${url}/api/external/whoami`, { headers: { authorization: `Bearer ${key}` } })
  await response.body.dump()
  return response.statusCode
}

describe('the command line', () => {
  test('--help and --version print to stdout and end with 0', async () => {
    const { version } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8'))
    expect(await run(['--help']).ended).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/--data-dir DIR/),
      stderr: '',
    })
    expect(await run(['--version']).ended).toMatchObject({ code: 0, stdout: `aigwd ${version}\n`, stderr: '' })
  })

  test('--check of a good configuration ends with 0 and touches nothing', async () => {
    const ended = await run(['--check', '--data-dir', dataDir]).ended
    expect(ended).toMatchObject({ code: 0, stdout: 'The configuration is good.\n', stderr: '' })
    expect(existsSync(dataDir)).toBe(false)
  })

  test.each([['--check'], ['--data-dir=x']])(
    'a bad configuration gives a line for each fault and exit 78 (%s)',
    async (flag) => {
      const file = join(scratch, 'aigw.yaml')
      await writeFile(file, 'lisen: x\nlog: {level: loud}\n')
      const ended = await run([flag, '--listen', '1'], { AIGW_BOOTSTRAP_KEY: 'hunter2' }).ended
      expect(ended).toMatchObject({ code: 78, stdout: '' })
      expect(ended.stderr.trimEnd().split('\n')).toEqual([
        expect.stringContaining(`aigwd: ${file}:1: lisen: unknown key; did you mean "listen"?`),
        expect.stringContaining(`aigwd: ${file}:2: log.level: `),
        expect.stringMatching(/^aigwd: --listen: /),
        expect.stringMatching(/^aigwd: AIGW_BOOTSTRAP_KEY: /),
      ])
      expect(ended.stderr).not.toContain('hunter2')
    },
  )
})

describe('starting', () => {
  test('an empty data directory becomes a gateway that admin.key opens, in less than 110 MB of memory', async () => {
    const daemon = serve()
    const url = await urlOf(daemon)
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    const ready = await request(`${url}/readyz`)
    expect([ready.statusCode, await ready.body.json()]).toMatchObject([200, { status: 'ready' }])
    const key = (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
    expect(await whoami(url, key)).toBe(200)
    const status = await readFile(`/proc/${daemon.child.pid}/status`, 'utf8')
    expect(Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1])).toBeLessThan(RSS_LIMIT_KB)

    expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
    for (const name of await readdir(dataDir))
      expect([name, (await stat(join(dataDir, name))).mode & 0o077]).toEqual([name, 0])
    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0, stderr: '' })
  })

  test('the key survives kill -9 and a restart', async () => {
    const first = serve()
    await urlOf(first)
    first.child.kill('SIGKILL')
    await first.ended
    const key = (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
    expect(await whoami(await urlOf(serve()), key)).toBe(200)
  })

  test('AIGW_BOOTSTRAP_KEY opens the gateway, and replaces the key of an earlier start', async () => {
    const [first, second] = [newApiKey(), newApiKey()]
    const daemon = serve([], { AIGW_BOOTSTRAP_KEY: first })
    expect(await whoami(await urlOf(daemon), first)).toBe(200)
    daemon.child.kill('SIGTERM')
    await daemon.ended
    const url = await urlOf(serve([], { AIGW_BOOTSTRAP_KEY: second }))
    expect([await whoami(url, first), await whoami(url, second)]).toEqual([401, 200])
    expect(existsSync(join(dataDir, 'admin.key'))).toBe(false)
  })

  test('a second daemon on the same data directory ends with 1 and names the first', async () => {
    const first = serve()
    const url = await urlOf(first)
    const ended = await serve().ended
    expect(ended.code).toBe(1)
    expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining(`process ${first.child.pid}`)])
    expect(ended.stderr).toContain(url)
  })

  test('an address in use ends with 1, one line that names it, and a data directory that is free again', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const address = taken.address()
    const port = address !== null && typeof address === 'object' ? address.port : 0
    const ended = await run(['--listen', `127.0.0.1:${port}`, '--data-dir', dataDir]).ended
    taken.close()
    expect(ended.code).toBe(1)
    expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining(`127.0.0.1:${port}`)])
    expect(await urlOf(serve())).toMatch(/^http:/)
  })

  test('a store out of reach ends with 1 and one line that keeps the password', async () => {
    const ended = await serve([], { AIGW_DATABASE_URL: 'postgres://aigw:hunter2@127.0.0.1:1/aigw' }).ended
    expect(ended.code).toBe(1)
    expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining('127.0.0.1:1')])
    expect(ended.stdout + ended.stderr).not.toContain('hunter2')
  })

  test('AIGW_DATABASE_URL puts the store on PostgreSQL', async () => {
    const place = await postgresEngine.place({ migrated: false })
    try {
      const key = newApiKey()
      const daemon = serve([], { AIGW_DATABASE_URL: String(place.databaseUrl), AIGW_BOOTSTRAP_KEY: key })
      expect(await whoami(await urlOf(daemon), key)).toBe(200)
      expect(existsSync(join(dataDir, 'aigw.db'))).toBe(false)
      daemon.child.kill('SIGTERM')
      expect(await daemon.ended).toMatchObject({ code: 0 })
    } finally {
      await place.remove()
    }
  })

  test('systemd is told when it serves and when it stops', async () => {
    // Stands in for systemd's program, as the socket needs a systemd behind it.
    const reports = join(scratch, 'reports')
    await mkdir(join(scratch, 'bin'))
    await writeFile(join(scratch, 'bin/systemd-notify'), `#!/bin/sh\nfor state; do echo "$state" >> ${reports}; done\n`)
    await chmod(join(scratch, 'bin/systemd-notify'), 0o755)
    const daemon = serve([], { NOTIFY_SOCKET: '/run/systemd/notify', PATH: `${scratch}/bin:${process.env.PATH}` })
    const url = await urlOf(daemon)
    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0 })
    expect((await readFile(reports, 'utf8')).trimEnd().split('\n').sort()).toEqual([
      'READY=1',
      'STATUS=Draining',
      `STATUS=Listening on ${url}`,
      'STOPPING=1',
    ])
  })

  test('a systemd that cannot be told does not stop the service', async () => {
    const daemon = serve([], { NOTIFY_SOCKET: '/run/systemd/notify', PATH: scratch })
    await urlOf(daemon)
    await daemon.logged('systemd was not told')
    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0 })
  })
})

describe('stopping', () => {
  const key = newApiKey()
  let upstream: Upstream
  let url: string
  let daemon: Daemon

  beforeEach(async () => {
    upstream = await startUpstream()
    const file = join(scratch, 'gateway.yaml')
    await writeFile(file, `providers: {test: {base_url: "${upstream.url}"}}\n`)
    daemon = serve(['--config', file], { AIGW_BOOTSTRAP_KEY: key })
    url = await urlOf(daemon)
  })
  afterEach(() => upstream.close())

  const chat = () =>
    request(url + CHAT, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'test/m', index: 'Zero-Knowledge', messages: [{ role: 'user', content: 'Hi' }] }),
    })

  test('SIGTERM lets a running request finish, and then ends with 0', async () => {
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    upstream.script(async ({ head, write, end }) => {
      await held
      head(200, { 'content-type': 'application/json' })
      const message = { role: 'assistant', content: 'Hello' }
      await write(
        JSON.stringify({
          choices: [{ index: 0, message, finish_reason: 'stop' }],
          usage: { prompt_tokens: 1, completion_tokens: 1 },
        }),
      )
      end()
    })
    const answer = chat()
    await upstream.nextRequest()
    daemon.child.kill('SIGTERM')
    await daemon.logged('draining')
    release()
    const response = await answer
    expect([response.statusCode, await response.body.json()]).toMatchObject([
      200,
      { choices: [{ message: { content: 'Hello' } }] },
    ])
    expect(await daemon.ended).toMatchObject({ code: 0, signal: null })
  })

  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('a second %s ends at once with %i', async (signal, code) => {
    upstream.script(() => {})
    const answer = chat().catch((error: Error) => error)
    await upstream.nextRequest()
    daemon.child.kill(signal)
    await daemon.logged('draining')
    daemon.child.kill(signal)
    expect(await daemon.ended).toMatchObject({ code })
    expect(await answer).toBeInstanceOf(Error)
  })

  test.each([
    ['an exception', 'throw new Error("a bug")'],
    ['a rejection', 'Promise.reject(new Error("a bug"))'],
  ])('%s that nobody expected is logged and ends with 1, so that a fresh daemon takes over', async (_, fault) => {
    const preload = join(scratch, 'fault.mjs')
    await writeFile(preload, `process.on('SIGUSR2', () => { ${fault} })`)
    const faulty = run(['--listen', '127.0.0.1:0', '--data-dir', join(scratch, 'other')], {
      NODE_OPTIONS: `--import=${preload}`,
    })
    await urlOf(faulty)
    faulty.child.kill('SIGUSR2')
    expect(await faulty.logged('unexpected fault, the process ends')).toMatchObject({
      level: 'fatal',
      error: { message: 'a bug', stack: expect.stringContaining('Error: a bug') },
    })
    expect(await faulty.ended).toMatchObject({ code: 1 })
  })
})
