import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { toDaemonArgs } from '../../../src/cli/commands/gateway/serve.ts'
import { toUnit, toUnitWord } from '../../../src/cli/commands/service/unit.ts'
import type { Clock } from '../../../src/shared/time.ts'
import { createFakeClock, type FakeClock } from '../../fake-clock.ts'
import { type FakeGateway, flatError, json, KEY, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, captured, runCli } from '../run-cli.ts'

let gateway: FakeGateway
beforeEach(async () => {
  gateway = await startFakeGateway()
})
afterEach(() => gateway.close())

const aigw = (words: string[], options: CliOptions = {}) =>
  runCli(words, { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, ...options.env } })

const NOT_READY = json(503, { status: 'not ready', checks: { store: true, migrations: false, accepting: true } })

describe('aigw health', () => {
  test.each([
    [[], '/api/external/health', 'healthy'],
    [['--live'], '/livez', 'ok'],
    [['--ready'], '/readyz', 'ready'],
  ])('%j asks without a key and exits 0', async (flags, path, status) => {
    expect(await aigw(['health', '--field', 'status', ...flags])).toMatchObject({ exitCode: 0, stdout: `${status}\n` })
    expect(gateway.requests.map((request) => [request.path, request.headers.authorization])).toEqual([
      [path, undefined],
    ])
  })

  test('exits 10 and names the failing check if the gateway is not ready', async () => {
    gateway.on('GET /readyz', NOT_READY)
    const { exitCode, stderr } = await aigw(['health', '--ready'])
    expect(exitCode).toBe(10)
    expect(stderr).toContain('Failing:  migrations')
  })

  test('--wait asks again until the gateway is ready', async () => {
    gateway.on('GET /readyz', NOT_READY, NOT_READY, json(200, { status: 'ready', checks: {} }))
    const clock = withoutPauses(createFakeClock())
    expect((await aigw(['health', '--ready', '--wait', '30s'], { io: { clock } })).exitCode).toBe(0)
    expect(gateway.requests).toHaveLength(3)
  })

  test('--wait gives up when its time is over', async () => {
    gateway.on('GET /readyz', NOT_READY)
    const clock = withoutPauses(createFakeClock())
    expect((await aigw(['health', '--ready', '--wait', '1.1s'], { io: { clock } })).exitCode).toBe(10)
    expect(gateway.requests).toHaveLength(6)
  })

  test('--wait is over in time also when the gateway takes the call and never answers', async () => {
    const clock = createFakeClock()
    const asked: number[] = []
    gateway.on('GET /readyz', () => {
      asked.push(clock.monotonic())
      clock.advance(2_000)
    })
    const { exitCode, stderr } = await aigw(['health', '--ready', '--wait', '2s'], { io: { clock } })
    expect({ exitCode, asked, elapsed: clock.monotonic() }).toEqual({ exitCode: 9, asked: [0], elapsed: 2_000 })
    expect(stderr).toContain('within 2 s')
    expect(clock.pending).toBe(0)
  })

  test('--wait leaves the repeating to itself', async () => {
    gateway.on('GET /readyz', (_, response) => void response.destroy())
    const clock = withoutPauses(createFakeClock())
    expect((await aigw(['health', '--ready', '--wait', '1.1s'], { io: { clock } })).exitCode).toBe(9)
    expect(gateway.requests).toHaveLength(6)
  })

  test.each([
    ['a page', (_: unknown, response: ServerResponse) => void response.writeHead(200).end('<html>Welcome</html>')],
    ['some other JSON', json(200, { hello: 'world' })],
    ['an empty body', json(200, null)],
  ])('%s with status 200 is no healthy gateway', async (_, script) => {
    gateway.on('GET /api/external/health', script)
    gateway.on('GET /livez', script)
    gateway.on('GET /readyz', script)
    for (const flags of [[], ['--live'], ['--ready']]) {
      const { exitCode, stderr } = await aigw(['health', '-o', 'json', ...flags])
      expect(exitCode).toBe(10)
      expect(JSON.parse(stderr)).toMatchObject({ code: 'NOT_A_GATEWAY', exit_code: 10, http_status: 200 })
    }
  })

  test('an unhealthy gateway exits 10, whatever its status line', async () => {
    gateway.on('GET /api/external/health', json(200, { success: false, status: 'unhealthy' }))
    expect((await aigw(['health'])).exitCode).toBe(10)
  })

  test('exits 9 without a listening gateway', async () => {
    await gateway.close()
    const result = await aigw(['health', '--retries', '0'])
    expect(result.exitCode).toBe(9)
    expect(result.stderr).toBe(
      `error: cannot reach the gateway at ${gateway.url} (connection refused)\n` +
        '  Is it running?   systemctl status aigw, or start one: aigw serve\n  Other address?   aigw profiles list, or --base-url\n',
    )
    gateway = await startFakeGateway()
  })
})

/** A clock on which the pauses between two tries are over at once, and have taken their time all the same. */
function withoutPauses(clock: FakeClock): Clock {
  return {
    now: clock.now,
    monotonic: clock.monotonic,
    after(ms, run) {
      if (ms !== 200) return clock.after(ms, run)
      queueMicrotask(() => {
        clock.advance(ms)
        run()
      })
      return { cancel: () => {} }
    },
  }
}

describe('aigw api', () => {
  test('prints the body of any route byte for byte into a pipe', async () => {
    gateway.on('GET /api/external/odd', (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{ "a":1 }')
    })
    expect((await aigw(['api', 'GET', 'odd'])).stdout).toBe('{ "a":1 }')
    expect((await aigw(['api', 'get', '/api/external/odd', '-o', 'yaml'])).stdout).toBe('a: 1\n')
  })

  test('builds a JSON body from fields, from text and from stdin', async () => {
    gateway.on('POST /api/external/groups', json(201, { success: true }))
    await aigw(['api', 'POST', 'groups', '-F', 'name=ops', '-F', 'size=3', '-F', 'on=true'])
    await aigw(['api', 'POST', 'groups', '-d', '{"a":1}'])
    await aigw(['api', 'POST', 'groups', '-d', '-'], { stdin: '{"b":2}' })
    expect(gateway.requests.map(({ json: body }) => body)).toEqual([
      { name: 'ops', size: 3, on: true },
      { a: 1 },
      { b: 2 },
    ])
  })

  test('a member that --data has twice is rejected before anything is sent', async () => {
    const { exitCode, stderr } = await aigw(['api', 'POST', 'groups', '-d', '{"a":1,"a":2}'])
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('--data has the member "a" twice')])
    expect(gateway.requests).toEqual([])
  })

  test('prints the body of a refusal too, and exits with its code', async () => {
    gateway.on('GET /api/external/groups', flatError(403, 'Access denied', 'No.'))
    const { exitCode, stdout } = await aigw(['api', 'GET', 'groups'])
    expect(exitCode).toBe(5)
    expect(JSON.parse(stdout)).toMatchObject({ error: 'Access denied' })
  })

  test('--paginate joins the lists of all pages', async () => {
    const page = (number: number) =>
      json(200, { success: true, groups: [{ id: `g${number}` }], pagination: { page: number, pages: 3 } })
    gateway.on('GET /api/external/groups', page(1), page(2), page(3))
    expect((await aigw(['api', 'GET', 'groups', '--paginate', '-o', 'id'])).stdout).toBe('g1\ng2\ng3\n')
  })

  test.each(['https://evil.example.com/x', '//evil.example.com/x'])('refuses the address %s', async (path) => {
    expect((await aigw(['api', 'GET', path])).exitCode).toBe(2)
    expect(gateway.requests).toEqual([])
  })

  test('an empty body is accepted, also with a JSON content type', async () => {
    gateway.on('HEAD /livez', json(200, { status: 'ok' }))
    for (const terminal of [{}, { stdout: true }]) {
      expect(await aigw(['api', 'HEAD', '/livez'], { terminal })).toEqual({ exitCode: 0, stdout: '', stderr: '' })
    }
    gateway.on('GET /api/external/none', (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end()
    })
    expect((await aigw(['api', 'GET', 'none', '-o', 'json'])).exitCode).toBe(0)
  })

  test('invalid JSON is written to a pipe unchanged, and has no other format', async () => {
    gateway.on('GET /api/external/odd', (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":')
    })
    expect(await aigw(['api', 'GET', 'odd'])).toEqual({ exitCode: 0, stdout: '{"a":', stderr: '' })
    const shaped = await aigw(['api', 'GET', 'odd', '-o', 'yaml'])
    expect(shaped).toMatchObject({ exitCode: 1, stdout: '' })
    expect(shaped.stderr).toContain('did not answer with JSON')
  })

  test.each(['text/event-stream', 'application/json'])('a %s answer that breaks off exits 8', async (type) => {
    gateway.on('GET /api/external/events', (_, response) => {
      response.writeHead(200, { 'content-type': type, 'content-length': '100' })
      response.write('data: 1\n\n', () => response.destroy())
    })
    const { exitCode, stderr } = await aigw(['api', 'GET', 'events'])
    expect(exitCode).toBe(8)
    expect(stderr).toContain('broke in the middle of the answer')
  })

  test('--timeout also limits an endless response', async () => {
    gateway.on('GET /api/external/events', (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\n')
    })
    const clock = createFakeClock()
    const stdout = captured()
    stdout.stream.once('drained', () => clock.advance(5_000))
    const words = ['api', 'GET', 'events', '--timeout', '5s']
    const { exitCode, stderr } = await aigw(words, { io: { clock, stdout: stdout.stream } })
    expect({ exitCode, stdout: stdout.text() }).toEqual({ exitCode: 8, stdout: 'data: 1\n\n' })
    expect(stderr).toContain('not complete in time')
  })

  test('takes no key as a flag value', async () => {
    expect((await aigw(['api', 'GET', 'whoami', '-H', 'Authorization: Bearer x'])).exitCode).toBe(2)
  })
})

describe('aigw service unit', () => {
  const template =
    '[Unit]\nDescription=x\nAfter=network-online.target\n# @NODE@ is filled in\n[Service]\nType=notify\nExecStart=@NODE@ @AIGWD@\nDynamicUser=yes\nProtectHome=yes\n[Install]\nWantedBy=multi-user.target\n'
  const paths = { node: '/usr/bin/node', daemon: '/opt/my app/100%/aigwd.js' }

  test('fills in the paths as systemd reads them, and touches no comment', () => {
    const unit = toUnit(template, { ...paths, user: false })
    expect(unit).toContain('ExecStart=/usr/bin/node "/opt/my app/100%%/aigwd.js"\n')
    expect(unit).toContain('# @NODE@ is filled in')
    expect(toUnitWord('/a/"b"$c')).toBe('"/a/\\"b\\"$$c"')
  })

  test('--user keeps only what a user may ask of systemd', () => {
    const unit = toUnit(template, { ...paths, user: true })
    expect(unit).toContain('WantedBy=default.target')
    expect(unit).toContain('Type=notify')
    expect(unit).not.toMatch(/DynamicUser|ProtectHome|network-online|#/)
  })

  test('prints the packaged unit without placeholders', async () => {
    const { exitCode, stdout } = await aigw(['service', 'unit'])
    expect(exitCode).toBe(0)
    const directives = stdout.split('\n').filter((line) => !line.startsWith('#'))
    expect(directives.join('\n')).not.toMatch(/@(NODE|AIGWD)@/)
    expect(stdout).toContain(`ExecStart=${toUnitWord(process.execPath)}`)
  })
})

describe('aigw serve', () => {
  test('passes on the flags it was given and no others', () => {
    expect(toDaemonArgs({})).toEqual([])
    expect(toDaemonArgs({ config: 'a.yaml', listen: '[::1]:0', dataDir: '/d', check: true })).toEqual([
      ...['--config', 'a.yaml', '--listen', '[::1]:0', '--data-dir', '/d', '--check'],
    ])
  })
})

describe('a key from a file', () => {
  test('is read without its line break, and an invalid key is rejected without being shown', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
    const path = join(folder, 'key')
    const env = { AIGW_API_KEY: '', AIGW_API_KEY_FILE: path }
    await writeFile(path, `${KEY}\n`)
    expect((await aigw(['whoami'], { env })).exitCode).toBe(0)
    await writeFile(path, 'two\nlines-of-secret')
    const { exitCode, stderr } = await aigw(['whoami'], { env })
    expect(exitCode).toBe(2)
    expect(stderr).not.toContain('lines-of-secret')
    await rm(folder, { recursive: true })
  })
})
