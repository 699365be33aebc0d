import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { newApiKey } from '../../src/shared/ids.ts'
import { deferred } from '../deferred.ts'
import { type DaemonProcess, endDaemons, runDaemon } from '../e2e/daemon-process.ts'
import { postgresEngine } from '../engines.ts'
import { chatJson, replyJson, startUpstream, type Upstream } from '../upstream.ts'

const project = fileURLToPath(new URL('../..', import.meta.url))
const CHAT = '/api/external/chat/completions'

let scratch: string
let dataDir: string

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  dataDir = join(scratch, 'state')
})
afterEach(async () => {
  await endDaemons()
  await rm(scratch, { recursive: true })
})

const run = (args: readonly string[], env: Record<string, string> = {}) => runDaemon(args, { env, home: scratch })

const serve = (args: readonly string[] = [], env: Record<string, string> = {}) =>
  run(['--listen', '127.0.0.1:0', '--data-dir', dataDir, ...args], env)

async function whoami(url: string, key: string): Promise<number> {
  const response = await request(`${url}/api/external/whoami`, { headers: { authorization: `Bearer ${key}` } })
  await response.body.dump()
  return response.statusCode
}

describe('the command line', () => {
  test('--help and --version print to stdout and exit with 0', async () => {
    const { version } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8'))
    expect(await run(['--help']).ended).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/--data-dir DIR/),
      stderr: '',
    })
    expect(await run(['--version']).ended).toMatchObject({ code: 0, stdout: `aigwd ${version}\n`, stderr: '' })
  })

  test('--check of a valid configuration exits with 0 and changes nothing', async () => {
    const ended = await run(['--check', '--data-dir', dataDir]).ended
    expect(ended).toMatchObject({ code: 0, stdout: 'The configuration is valid.\n', stderr: '' })
    expect(existsSync(dataDir)).toBe(false)
  })

  test.each([['--check'], ['--data-dir=x']])(
    'an invalid configuration gives one line per error and exit code 78 (%s)',
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
  test('an empty data directory becomes a gateway that admin.key opens, readable only by this user', async () => {
    const daemon = serve()
    const url = await daemon.url()
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    const ready = await request(`${url}/readyz`)
    expect([ready.statusCode, await ready.body.json()]).toMatchObject([200, { status: 'ready' }])
    const key = (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
    expect(await whoami(url, key)).toBe(200)

    expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
    for (const name of await readdir(dataDir))
      expect([name, (await stat(join(dataDir, name))).mode & 0o077]).toEqual([name, 0])
    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0, stderr: '' })
  })

  test('libuv has 16 threads, or the number that the operator sets', async () => {
    const threads = async (env: Record<string, string>) => {
      const daemon = serve([], env)
      await daemon.url()
      const { length } = await readdir(`/proc/${daemon.child.pid}/task`)
      await daemon.end('SIGTERM')
      return length
    }
    const four = await threads({ UV_THREADPOOL_SIZE: '4' })
    expect(await threads({})).toBe(four + 12)
    expect(await threads({ UV_THREADPOOL_SIZE: '7' })).toBe(four + 3)
  })

  test('the key survives kill -9 and a restart', async () => {
    const first = serve()
    await first.url()
    first.child.kill('SIGKILL')
    await first.ended
    const key = (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
    expect(await whoami(await serve().url(), key)).toBe(200)
  })

  test('AIGW_BOOTSTRAP_KEY is accepted, and replaces the key of an earlier start', async () => {
    const [first, second] = [newApiKey(), newApiKey()]
    const daemon = serve([], { AIGW_BOOTSTRAP_KEY: first })
    expect(await whoami(await daemon.url(), first)).toBe(200)
    daemon.child.kill('SIGTERM')
    await daemon.ended
    const url = await serve([], { AIGW_BOOTSTRAP_KEY: second }).url()
    expect([await whoami(url, first), await whoami(url, second)]).toEqual([401, 200])
    expect(existsSync(join(dataDir, 'admin.key'))).toBe(false)
  })

  test('a second daemon on the same data directory exits with 1 and names the first', async () => {
    const first = serve()
    const url = await first.url()
    const ended = await serve().ended
    expect(ended.code).toBe(1)
    expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining(`process ${first.child.pid}`)])
    expect(ended.stderr).toContain(url)
  })

  test('an address in use exits with 1 and one line that names it, and releases the data directory', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const address = taken.address()
    const port = address !== null && typeof address === 'object' ? address.port : 0
    const ended = await run(['--listen', `127.0.0.1:${port}`, '--data-dir', dataDir]).ended
    taken.close()
    expect(ended.code).toBe(1)
    expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining(`127.0.0.1:${port}`)])
    expect(await serve().url()).toMatch(/^http:/)
  })

  test.each(['', 'below'])(
    'a data directory that is a file exits with 1 and one line with the reason (/%s)',
    async (below) => {
      await writeFile(dataDir, '')
      const ended = await serve(['--data-dir', join(dataDir, below)]).ended
      expect(ended.code).toBe(1)
      expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining('is a file, not a directory')])
    },
  )

  test('a descriptor that is not a pipe exits with 1 and one line', async () => {
    const ended = await serve([], { AIGW_PARENT_PIPE: '99' }).ended
    expect(ended.code).toBe(1)
    expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining('AIGW_PARENT_PIPE')])
  })

  test('an unreachable store exits with 1 and one line without the password', async () => {
    const ended = await serve([], { AIGW_DATABASE_URL: 'postgres://aigw:hunter2@127.0.0.1:1/aigw' }).ended
    expect(ended.code).toBe(1)
    expect(ended.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining('127.0.0.1:1')])
    expect(ended.stdout + ended.stderr).not.toContain('hunter2')
  })

  test('AIGW_DATABASE_URL selects PostgreSQL as the store', async () => {
    const place = await postgresEngine.place({ migrated: false })
    try {
      const key = newApiKey()
      const daemon = serve([], { AIGW_DATABASE_URL: String(place.databaseUrl), AIGW_BOOTSTRAP_KEY: key })
      expect(await whoami(await daemon.url(), key)).toBe(200)
      expect(existsSync(join(dataDir, 'aigw.db'))).toBe(false)
      daemon.child.kill('SIGTERM')
      expect(await daemon.ended).toMatchObject({ code: 0 })
    } finally {
      await place.remove()
    }
  })

  test('systemd is notified of readiness and of the stop', async () => {
    // Replaces systemd's program, because the socket needs a running systemd.
    const reports = join(scratch, 'reports')
    await mkdir(join(scratch, 'bin'))
    await writeFile(join(scratch, 'bin/systemd-notify'), `#!/bin/sh\nfor state; do echo "$state" >> ${reports}; done\n`)
    await chmod(join(scratch, 'bin/systemd-notify'), 0o755)
    const daemon = serve([], { NOTIFY_SOCKET: '/run/systemd/notify', PATH: `${scratch}/bin:${process.env.PATH}` })
    const url = await daemon.url()
    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0 })
    expect((await readFile(reports, 'utf8')).trimEnd().split('\n').sort()).toEqual([
      'READY=1',
      'STATUS=Draining',
      `STATUS=Listening on ${url}`,
      'STOPPING=1',
    ])
  })

  test('systemd is notified of a reload', async () => {
    const reports = join(scratch, 'reports')
    await mkdir(join(scratch, 'bin'))
    await writeFile(join(scratch, 'bin/systemd-notify'), `#!/bin/sh\nfor state; do echo "$state" >> ${reports}; done\n`)
    await chmod(join(scratch, 'bin/systemd-notify'), 0o755)
    const daemon = serve([], { NOTIFY_SOCKET: '/run/systemd/notify', PATH: `${scratch}/bin:${process.env.PATH}` })
    await daemon.url()
    daemon.child.kill('SIGHUP')
    await daemon.logged('the configuration was reloaded')
    expect(await readFile(reports, 'utf8')).toMatch(/^RELOADING=1\nMONOTONIC_USEC=\d+$/m)
    expect(await daemon.end('SIGTERM')).toMatchObject({ code: 0 })
  })

  test('a failed notification of systemd does not stop the service', async () => {
    const daemon = serve([], { NOTIFY_SOCKET: '/run/systemd/notify', PATH: scratch })
    await daemon.url()
    await daemon.logged('systemd could not be notified')
    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0 })
  })
})

describe('stopping', () => {
  const key = newApiKey()
  let upstream: Upstream
  let url: string
  let daemon: DaemonProcess

  beforeEach(async () => {
    upstream = await startUpstream()
    const file = join(scratch, 'gateway.yaml')
    await writeFile(file, `providers: {test: {base_url: "${upstream.url}"}}\n`)
    daemon = serve(['--config', file], { AIGW_BOOTSTRAP_KEY: key })
    url = await daemon.url()
  })
  afterEach(() => upstream.close())

  const chat = () =>
    request(url + CHAT, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'test/m', index: 'Zero-Knowledge', messages: [{ role: 'user', content: 'Hi' }] }),
    })

  /** A chat that waits at the upstream; `finish` lets it respond. */
  async function startChat() {
    const held = deferred()
    upstream.script(async (exchange) => {
      await held.promise
      await replyJson(chatJson('Hello', { usage: { prompt_tokens: 1, completion_tokens: 1 } }))(exchange)
    })
    const answer = chat()
    await upstream.nextRequest()
    return { answer, finish: held.resolve }
  }

  test.each([
    ['SIGTERM', () => daemon.child.kill('SIGTERM')],
    ['the end of the process that started it', () => (daemon.child.stdio[3] as Writable).destroy()],
  ])('%s lets a running request finish, and then exits with 0', async (_, stop) => {
    const { answer, finish } = await startChat()
    stop()
    await daemon.logged('draining')
    finish()
    const response = await answer
    expect([response.statusCode, await response.body.json()]).toMatchObject([
      200,
      { choices: [{ message: { content: 'Hello' } }] },
    ])
    expect(await daemon.ended).toMatchObject({ code: 0, signal: null })
  })

  test('SIGHUP does not shorten the drain', async () => {
    const { answer, finish } = await startChat()
    daemon.child.kill('SIGTERM')
    await daemon.logged('draining')
    daemon.child.kill('SIGHUP')
    expect((await request(`${url}/livez`)).statusCode).toBe(200)
    finish()
    expect((await answer).statusCode).toBe(200)
    expect(await daemon.ended).toMatchObject({ code: 0, signal: null })
  })

  test('SIGHUP reloads the file and the secrets that it names; an invalid file changes nothing', async () => {
    const [file, secret] = [join(scratch, 'gateway.yaml'), join(scratch, 'provider-key')]
    const { answer, finish } = await startChat()
    await writeFile(secret, 'sk-first-key-of-the-file\n')
    const provider = `{base_url: "${upstream.url}", api_key: {file: provider-key}}`
    await writeFile(file, `drain_timeout: 20s\nlisten: "127.0.0.1:1"\nproviders: {test: ${provider}}\n`)
    daemon.child.kill('SIGHUP')
    expect(await daemon.logged('the configuration was reloaded')).toMatchObject({
      changed: ['providers.test', 'drain_timeout'],
      needs_restart: [],
    })
    finish()
    expect((await answer).statusCode).toBe(200)
    upstream.fallback(replyJson(chatJson('Hello', { usage: { prompt_tokens: 1, completion_tokens: 1 } })))
    expect((await chat()).statusCode).toBe(200)
    expect(upstream.requests.at(-1)?.headers.authorization).toBe('Bearer sk-first-key-of-the-file')

    await writeFile(secret, 'sk-second-key-of-the-file\n')
    daemon.child.kill('SIGHUP')
    expect(await daemon.logged('the configuration was reloaded')).toMatchObject({ changed: ['providers.test'] })
    expect((await chat()).statusCode).toBe(200)
    expect(upstream.requests.at(-1)?.headers.authorization).toBe('Bearer sk-second-key-of-the-file')

    await writeFile(file, 'lisen: x\n')
    daemon.child.kill('SIGHUP')
    const fault = await daemon.logged('the configuration was not reloaded; the earlier one stays in force')
    expect(JSON.stringify(fault)).toContain(`${file}:1: lisen: unknown key`)
    expect((await chat()).statusCode).toBe(200)

    await writeFile(file, `log: {level: silent}\nproviders: {test: ${provider}}\n`)
    daemon.child.kill('SIGHUP')
    const reloaded = async () =>
      (
        await request(`${url}/api/admin/config/reload`, { method: 'POST', headers: { authorization: `Bearer ${key}` } })
      ).body.json()
    await reloaded()
    expect(await reloaded()).toMatchObject({ reload: { changed: [], needsRestart: [] } })
    daemon.child.kill('SIGTERM')
    const ended = await daemon.ended
    expect(ended).toMatchObject({ code: 0, signal: null })
    expect(ended.stdout + ended.stderr).not.toMatch(/key-of-the-file|draining/)
  })

  test('a log without a reader stops neither the service nor its exit', async () => {
    daemon.child.stdout?.destroy()
    daemon.child.stderr?.destroy()
    expect(await whoami(url, key)).toBe(200)
    daemon.child.kill('SIGTERM')
    expect(await daemon.ended).toMatchObject({ code: 0, signal: null })
  })

  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('a second %s exits at once with %i', async (signal, code) => {
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
  ])('%s is logged and exits with 1, so that a fresh daemon takes over', async (_, fault) => {
    const preload = join(scratch, 'fault.mjs')
    await writeFile(preload, `process.on('SIGUSR2', () => { ${fault} })`)
    const faulty = run(['--listen', '127.0.0.1:0', '--data-dir', join(scratch, 'other')], {
      NODE_OPTIONS: `--import=${preload}`,
    })
    await faulty.url()
    faulty.child.kill('SIGUSR2')
    expect(await faulty.logged('unexpected error; the process exits')).toMatchObject({
      level: 'fatal',
      error: { message: 'a bug', stack: expect.stringContaining('Error: a bug') },
    })
    expect(await faulty.ended).toMatchObject({ code: 1 })
  })
})
