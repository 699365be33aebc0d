/** `status`, `doctor`, and chat without a model. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkMachine } from '../../../src/cli/commands/gateway/doctor/machine.ts'
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
      ...['settings ok', 'credentials ok', 'gateway ok', 'clock ok', 'store ok', 'migrations ok', 'requests ok'],
      ...['evidence ok', 'key ok', 'providers ok'],
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
        `chmod 640 ${path}, or use {file: PATH}`,
        `chmod 600 ${join(home, 'key')}`,
        `chmod 700 ${home}`,
        expect.stringContaining('/etc/resolv.conf'),
      ]),
    )
    expect(rows.filter(({ check }) => check === 'dns').map(({ status }) => status)).toEqual(['fail', 'ok'])
    expect(rows.find(({ check }) => check === 'disk')?.detail).toContain('GiB free')
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
  const UNIT = { unitText: '[Unit]\n[Service]\nType=notify\n', adminKeyDir: '/var/lib/aigw' }

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
    expect(next).toEqual([
      'systemctl enable --now aigw',
      'aigw login --base-url http://127.0.0.1:8787 --api-key-file /var/lib/aigw/admin.key',
    ])
  })

  test('pass secrets to a unit of a user as files', () => {
    const { config, unit, next } = planFiles({ ...ANSWERS, isRoot: false }, UNIT)
    expect(config.text).toContain('api_key: {file: "secrets/openai-key"}')
    expect(unit?.text).not.toContain('LoadCredential')
    expect(next[0]).toBe('systemctl --user enable --now aigw')
  })
})
