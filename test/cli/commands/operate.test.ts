/** `status`, `doctor`, and chat without a model. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkMachine, dataDirOf, unreadableFinding } from '../../../src/cli/commands/gateway/doctor/machine.ts'
import { planFiles } from '../../../src/cli/commands/gateway/init/plan.ts'
import { createContext } from '../../../src/cli/create-context.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { answer, type FakeGateway, flatError, json, KEY, startFakeGateway, WHOAMI } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

const CHAT = 'POST /api/external/chat/completions'

let gateway: FakeGateway
let home: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  home = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(async () => {
  await gateway.close()
  await rm(home, { recursive: true })
})

const aigw = (words: string[], { env, ...options }: CliOptions = {}) =>
  runCli(words, {
    ...options,
    env: { XDG_CONFIG_HOME: home, AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1', ...env },
  })

describe('aigw chat without a model', () => {
  const models = (...ids: string[]) =>
    gateway.on(
      'GET /api/external/models',
      json(200, {
        success: true,
        models: ids.map((id) => ({ id, name: id, provider: id.slice(0, id.indexOf('/')) })),
        user_license: 'Essential',
        restrictions: { allowed_models: 'all' },
        filters: { provider: null },
      }),
    )
  const sentModel = () => Reflect.get(Object(gateway.requests.at(-1)?.json), 'model')

  test.each([
    [['local/extract'], 'local/extract'],
    [['local/extract', 'openai/gpt-4o'], 'openai/gpt-4o'],
    [['openai/gpt-4o'], 'openai/gpt-4o'],
  ])('uses the only usable one of %j', async (ids, model) => {
    models(...ids)
    gateway.on(CHAT, answer('Hi'))
    const { exitCode, stderr } = await aigw(['chat', 'hi'])
    expect({ exitCode, model: sentModel() }).toEqual({ exitCode: 0, model })
    expect(stderr).toContain(`note: using ${model}`)
  })

  test.each([
    [['openai/gpt-4o', 'openai/gpt-4o-mini'], 'This key may use:  openai/gpt-4o, openai/gpt-4o-mini'],
    [['local/extract', 'mistral/*'], 'mistral/*'],
    [[], 'This key may use no model.'],
  ])('asks for one of %j', async (ids, hint) => {
    models(...ids)
    const { exitCode, stderr } = await aigw(['chat', 'hi'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('error: no model given')
    expect(stderr).toContain(hint)
  })

  test('asks the gateway for nothing if a model is named', async () => {
    gateway.on(CHAT, answer('Hi'))
    await aigw(['chat', '-m', 'a/b', 'hi'])
    expect(gateway.requests.map(({ path }) => path)).toEqual(['/api/external/chat/completions'])
  })
})

describe('aigw status', () => {
  test('shows checks, providers and, with the operator key, the start', async () => {
    const lines = [
      'process_start_time_seconds 1767225600',
      'aigw_requests_running 4',
      'aigw_webhook_queue_depth{state="due"} 2',
      'aigw_webhook_queue_depth{state="waiting"} 3',
      'aigw_store_bytes 5242880',
      'process_resident_memory_bytes 1.048576e+08',
    ]
    gateway.on(
      'GET /metrics',
      (_, response) => void response.writeHead(200, { 'content-type': 'text/plain' }).end(lines.join('\n')),
    )
    const { stdout } = await aigw(['status', '-o', 'json'])
    expect(JSON.parse(stdout)).toMatchObject({
      status: 'ready',
      base_url: gateway.url,
      version: '1.1.0',
      started_at: '2026-01-01T00:00:00.000Z',
      providers: ['local', 'openai', 'mistral'],
      ...{ requests_running: 4, webhook_queue: 5, store_mib: 5, memory_mib: 100 },
    })
  })

  test('works with an ordinary key, and exits 10 for a gateway that does not serve', async () => {
    gateway.on('GET /metrics', flatError(403, 'Access denied', 'Operators only.'))
    const checks = { store: false, migrations: true, accepting: true, evidence: true }
    gateway.on('GET /readyz', json(503, { status: 'not ready', checks }))
    const { exitCode, stdout, stderr } = await aigw(['status', '-o', 'json', '--retries', '0'])
    expect(exitCode).toBe(10)
    expect(JSON.parse(stdout)).toMatchObject({ status: 'not ready', started_at: null, checks })
    expect(JSON.parse(stderr)).toMatchObject({ code: 'NOT_HEALTHY' })
  })

  test('of a server that is no gateway says so', async () => {
    gateway.on('GET /api/external/health', json(200, { hello: 'world' }))
    expect((await aigw(['status'])).stderr).toContain('is not an aigw gateway')
  })
})

type Row = { check: string; status: string; detail: string; remedy: string }

describe('aigw doctor', () => {
  const doctor = async (options: CliOptions = {}) => {
    const result = await aigw(['doctor', '-o', 'json', '--retries', '0'], options)
    const rows: Row[] = JSON.parse(result.stdout)
    return { ...result, rows, of: (check: string) => rows.find((row) => row.check === check) }
  }

  test('finds nothing wrong with a healthy gateway', async () => {
    const { exitCode, rows } = await doctor()
    expect(exitCode).toBe(0)
    expect(rows.map(({ check, status }) => `${check} ${status}`)).toEqual([
      ...['settings ok', 'credentials ok', 'gateway ok', 'clock ok', 'store ok', 'migrations ok', 'master key ok'],
      ...['requests ok', 'evidence ok', 'secrets ok', 'key ok', 'providers ok'],
    ])
  })

  test('each problem has a remedy, and exits 10', async () => {
    const clock = createFakeClock()
    gateway.on('GET /api/external/health', (_, response) => {
      response.setHeader('date', new Date(clock.now() - 400_000).toUTCString())
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ success: true, status: 'healthy', version: '1.1.0' }))
    })
    const checks = { store: false, migrations: false, accepting: false, evidence: false }
    gateway.on('GET /readyz', json(503, { status: 'not ready', checks, lost_history: ['store_replaced'] }))
    gateway.on('GET /api/external/whoami', flatError(401, 'Invalid API key', 'Unknown API key.'))
    const { exitCode, rows, of } = await doctor({ io: { clock } })
    expect(exitCode).toBe(10)
    for (const row of rows) if (row.status !== 'ok') expect(row.remedy, row.check).not.toBe('')
    expect(of('clock')).toMatchObject({ status: 'fail', remedy: expect.stringContaining('timedatectl') })
    expect(of('store')?.status).toBe('fail')
    expect(of('migrations')?.status).toBe('fail')
    expect(of('evidence')).toMatchObject({ status: 'fail', remedy: 'aigw audit losses' })
    expect(of('key')).toMatchObject({ status: 'fail', remedy: expect.stringContaining('AIGW_API_KEY') })
  })

  test.each([
    ['master_key', 503, 'master key', 'set master_key'],
    ['accepting', 503, 'requests', 'wait or start it'],
    ['secrets', 200, 'secrets', 'aigw secrets status'],
    ['evidence', 200, 'evidence', 'aigw audit losses'],
    ['a_later_one', 503, 'a_later_one', "see the gateway's log"],
  ])('a gateway whose check %s fails with %i does not pass', async (name, status, check, remedy) => {
    const checks = { store: true, migrations: true, master_key: true, accepting: true, evidence: true, secrets: true }
    gateway.on('GET /readyz', json(status, { status: 'not ready', checks: { ...checks, [name]: false } }))
    const { exitCode, rows } = await doctor()
    expect(exitCode).toBe(10)
    const failed = rows.filter((row) => row.status === 'fail')
    expect(failed).toEqual([expect.objectContaining({ check, remedy: expect.stringContaining(remedy) })])
  })

  test.each([
    [503, { checks: { store: true } }],
    [200, { status: 'ready' }],
  ])('a readiness of %i without a reason does not pass', async (status, body) => {
    gateway.on('GET /readyz', json(status, body))
    const { exitCode, of } = await doctor()
    expect([exitCode, of('readiness')?.status]).toEqual([10, 'fail'])
  })

  test('a key that expires soon is a warning', async () => {
    const expiresAt = new Date(Date.now() + 3.5 * 86_400_000).toISOString()
    gateway.on('GET /api/external/whoami', json(200, { ...WHOAMI, api_key: { ...WHOAMI.api_key, expiresAt } }))
    const { exitCode, of } = await doctor()
    expect(exitCode).toBe(0)
    expect(of('key')).toMatchObject({ status: 'warn', detail: expect.stringContaining('expires in 3 days') })
  })

  test('an unreachable gateway is one failure with a remedy', async () => {
    const { exitCode, rows, of } = await doctor({ env: { AIGW_BASE_URL: 'http://127.0.0.1:1' } })
    expect(exitCode).toBe(10)
    expect(of('gateway')).toMatchObject({ status: 'fail', remedy: expect.stringContaining('aigw serve') })
    expect(rows.at(-1)?.check).toBe('gateway')
  })

  test('finds public secrets, missing names and a full path to the remedy on this machine', async () => {
    const path = join(home, 'aigw.yaml')
    await writeFile(
      path,
      `data_dir: ${home}\nproviders:\n  a: { base_url: "https://gone.example", api_key: sk-x }\n  b: { base_url: "http://10.0.0.1", api_key: { file: key } }\n`,
    )
    await writeFile(join(home, 'key'), 'x')
    await chmod(join(home, 'key'), 0o644)
    await chmod(path, 0o666)
    await chmod(home, 0o755)
    const unused = () => Promise.reject(new Error('unused'))
    const io = { env: {}, signal: new AbortController().signal } as Parameters<typeof createContext>[0]
    const context = createContext(io, { managesProfiles: false, commandTree: unused })
    const rows: Row[] = []
    const resolveHost = () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' }))
    for await (const row of checkMachine(context, path, resolveHost)) rows.push(row)
    const remedies = rows.filter(({ status }) => status === 'fail').map(({ remedy }) => remedy)
    expect(remedies).toEqual(
      expect.arrayContaining([
        `chmod go-w ${path}`,
        'move each to its own file: {credential: NAME} of systemd, or {file: PATH}',
        `chmod 600 ${join(home, 'key')}`,
        `chmod 700 ${home}`,
        expect.stringContaining('/etc/resolv.conf'),
      ]),
    )
    expect(rows.filter(({ check }) => check === 'dns').map(({ status }) => status)).toEqual(['fail', 'ok'])
    expect(rows.find(({ check }) => check === 'disk')?.detail).toContain('GiB free')
  })
})

describe('aigw doctor on this machine', () => {
  const check = async (path: string) => {
    const unused = () => Promise.reject(new Error('unused'))
    const io = { env: {}, signal: new AbortController().signal } as Parameters<typeof createContext>[0]
    const context = createContext(io, { managesProfiles: false, commandTree: unused })
    const rows: Row[] = []
    for await (const row of checkMachine(context, path, unused)) rows.push(row)
    return rows
  }

  test.each([
    ['providers: { a: { api_keys: [sk-x] } }', 'providers.a.api_keys.0'],
    ['providers: { a: { api_keys: [{ key: sk-x, weight: 2 }] } }', 'providers.a.api_keys.0.key'],
    [
      'providers: { bedrock: { credentials: { secret_access_key: x } } }',
      'providers.bedrock.credentials.secret_access_key',
    ],
    ['providers: { vertex: { credentials: "{}" } }', 'providers.vertex.credentials'],
    ['telemetry: { headers: { authorization: x } }', 'telemetry.headers.authorization'],
    ['database: { url: "postgres://a:b@127.0.0.1/c" }', 'database.url'],
  ])('finds the public secret of %s', async (text, where) => {
    const path = join(home, 'aigw.yaml')
    await writeFile(path, text)
    await chmod(path, 0o644)
    const rows = await check(path)
    expect(rows.filter(({ check }) => check === 'permissions')).toEqual([
      expect.objectContaining({ status: 'fail', detail: expect.stringContaining(`contains ${where},`) }),
    ])
  })

  test('finds a public credential next to the configuration', async () => {
    const path = join(home, 'aigw.yaml')
    await writeFile(path, 'providers: { openai: { api_key: { credential: openai-key } } }')
    await mkdir(join(home, 'secrets'))
    await writeFile(join(home, 'secrets/openai-key'), 'x')
    await chmod(join(home, 'secrets/openai-key'), 0o644)
    const remedies = (await check(path)).map(({ remedy }) => remedy)
    expect(remedies).toContain(`chmod 600 ${join(home, 'secrets/openai-key')}`)
  })

  test('suggests aigw init only for a missing configuration', async () => {
    expect(unreadableFinding('/x', Object.assign(new Error(), { code: 'EACCES' })).remedy).toBe('sudo aigw doctor')
    expect((await check(home)).at(-1)).toMatchObject({ status: 'fail', remedy: `correct the path ${home}` })
    expect((await check(join(home, 'gone.yaml'))).at(-1)?.remedy).toBe(`aigw init --config ${join(home, 'gone.yaml')}`)
  })

  test.each([
    ['/etc/aigw/aigw.yaml', {}, {}, '/var/lib/aigw'],
    ['/etc/aigw/aigw.yaml', {}, { AIGW_DATA_DIR: '/data' }, '/data'],
    ['/etc/aigw/aigw.yaml', { data_dir: 'store' }, {}, '/etc/aigw/store'],
    ['/srv/aigw.yaml', {}, { HOME: '/home/ada' }, '/home/ada/.local/state/aigw'],
  ])('the store of %s with %j and %j is in %s', (path, content, env, expected) => {
    expect(dataDirOf(path, content, env)).toBe(expected)
  })
})

describe('the files of aigw init', () => {
  const ANSWERS = {
    config: '/etc/aigw/aigw.yaml',
    provider: 'openai',
    providerUrl: undefined,
    providerKey: 'sk-provider',
    listen: '0.0.0.0:8787',
    dataDir: undefined,
    databaseUrl: 'postgres://aigw:hunter2@db/aigw',
    unit: '/etc/systemd/system/aigw.service',
    isRoot: true,
  }
  const UNIT = { unitText: '[Unit]\n[Service]\nType=notify\nExecStart=node aigwd.js\n', adminKeyDir: '/var/lib/aigw' }

  test('pass secrets to the unit of root as credentials', () => {
    const { config, secrets, unit, next } = planFiles(ANSWERS, UNIT)
    expect(config.text).toContain('url: {credential: database-url}')
    expect(config.text).toContain('api_key: {credential: openai-key}')
    expect(`${config.text}${unit?.text}`).not.toMatch(/sk-provider|hunter2/)
    expect(secrets.map(({ path, mode }) => [path, mode])).toEqual([
      ['/etc/aigw/secrets/database-url', 0o600],
      ['/etc/aigw/secrets/openai-key', 0o600],
    ])
    expect(unit?.text).toContain('LoadCredential=openai-key:/etc/aigw/secrets/openai-key\n')
    expect(unit?.text).toContain('ExecStart=node aigwd.js --config /etc/aigw/aigw.yaml\n')
    expect(next).toEqual([
      'systemctl enable --now aigw',
      'aigw login --base-url http://127.0.0.1:8787 --api-key-file /var/lib/aigw/admin.key',
    ])
  })

  test.each([
    [{ dataDir: '/data' }, '--data-dir cannot be combined with --systemd'],
    [{ config: '/home/ada/aigw.yaml' }, 'protects the homes of users'],
  ])('are refused if the unit could not use %j', (answers, message) => {
    expect(() => planFiles({ ...ANSWERS, ...answers }, UNIT)).toThrow(message)
    expect(() => planFiles({ ...ANSWERS, ...answers, isRoot: false }, UNIT)).not.toThrow()
  })

  test('name a configuration with a space in the unit', () => {
    const { unit } = planFiles({ ...ANSWERS, config: '/srv/my gateway/aigw.yaml' }, UNIT)
    expect(unit?.text).toContain('ExecStart=node aigwd.js --config "/srv/my gateway/aigw.yaml"\n')
  })

  test('pass secrets to a unit of a user as files', () => {
    const { config, unit, next } = planFiles({ ...ANSWERS, isRoot: false }, UNIT)
    expect(config.text).toContain('api_key: {file: "secrets/openai-key"}')
    expect(unit?.text).not.toContain('LoadCredential')
    expect(next[0]).toBe('systemctl --user enable --now aigw')
  })
})
