import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sharedGateway } from '../../harness.ts'
import { type FakeGateway, flatError, KEY, listOf, SECRET, startFakeGateway, tenantNamed } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

const ADMIN = ['--admin-name', 'Ada', '--admin-email', 'ada@example.com']

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(() => rm(folder, { recursive: true }))

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const tenants = (words: string[], key = gateway.current.adminKey) =>
    runCli(['tenants', ...words], {
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: key.trim(), NO_COLOR: '1' },
    })
  const statusWith = async (secret: string) =>
    (await gateway.current.call('GET', '/api/external/users', undefined, { key: secret.trim() })).status

  test('create prints the secret of an administrator of the new tenant, and of no other', async () => {
    const { exitCode, stdout, stderr } = await tenants(['create', 'acme', ...ADMIN])
    expect(exitCode).toBe(0)
    expect(stderr).toContain("Created tenant 'acme'")
    expect(await statusWith(stdout)).toBe(200)
    expect(await tenants(['list'], stdout)).toMatchObject({ exitCode: 5, stdout: '' })
  })

  test('create --if-not-exists twice is one tenant, and the saved secret of the first time goes on working', async () => {
    const path = join(folder, 'twice.key')
    const create = () => tenants(['create', 'twice', ...ADMIN, '--save-to', path, '--if-not-exists', '-o', 'id'])
    const first = await create()
    const secret = await readFile(path, 'utf8')
    expect(await create()).toEqual({
      exitCode: 0,
      stdout: first.stdout,
      stderr: "note: tenant 'twice' already exists; left unchanged\n",
    })
    expect(await readFile(path, 'utf8')).toBe(secret)
    expect(await statusWith(secret)).toBe(200)
    const taken = await tenants(['create', 'twice', ...ADMIN])
    expect(taken).toMatchObject({ exitCode: 6, stderr: expect.stringContaining('aigw tenants show twice') })
  })

  test('create --if-not-exists without its file exits 6, and suggests a new key for the same tenant', async () => {
    const path = join(folder, 'lost.key')
    const create = () => tenants(['create', 'lost', ...ADMIN, '--save-to', path, '--if-not-exists', '-o', 'id'])
    const first = await create()
    const secret = await readFile(path, 'utf8')
    await rm(path)
    const lost = await create()
    expect(lost).toMatchObject({ exitCode: 6, stdout: '' })
    const way = `aigw tenants admin-key ${first.stdout.trim()} --save-to ${path}`
    expect(lost.stderr).toContain(way)
    const made = await tenants([...way.split(' ').slice(2), '-o', 'id'])
    expect(made.exitCode).toBe(0)
    expect(made.stderr).toContain('for ada@example.com')
    expect(await statusWith(await readFile(path, 'utf8'))).toBe(200)
    expect(await statusWith(secret)).toBe(200)
    expect(await create()).toMatchObject({ exitCode: 0, stdout: first.stdout })
  })

  test('admin-key prints the secret of an administrator, by name of the tenant and by id of the user', async () => {
    const made = await tenants(['create', 'two heads', ...ADMIN, '--json'])
    const { admin } = JSON.parse(made.stdout)
    const again = await tenants(['admin-key', 'two heads', '--user', admin.id])
    expect(again).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^sk-[0-9a-f]{64}\n$/) })
    expect(await statusWith(again.stdout)).toBe(200)
    expect(await tenants(['admin-key', 'two heads', '--user', '0'.repeat(24)])).toMatchObject({ exitCode: 2 })
    expect(await tenants(['admin-key', 'nowhere'])).toMatchObject({ exitCode: 3, stdout: '' })
    expect(await tenants(['admin-key', '0'.repeat(24)])).toMatchObject({ exitCode: 3, stdout: '' })
    expect(await tenants(['admin-key', 'two heads'], again.stdout)).toMatchObject({ exitCode: 5, stdout: '' })
  })

  test('disable refuses the keys of the tenant, enable accepts them again, and both may be repeated', async () => {
    const { stdout: secret } = await tenants(['create', 'on and off', ...ADMIN])
    for (const [verb, status, http] of [
      ['disable', 'Disabled', 401],
      ['disable', 'Disabled', 401],
      ['enable', 'Active', 200],
    ] as const) {
      const { exitCode, stdout } = await tenants([verb, 'on and off', '--field', 'status'])
      expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: `${status}\n` })
      expect(await statusWith(secret)).toBe(http)
    }
    await tenants(['disable', 'on and off'])
    expect((await tenants(['list', '--status', 'Disabled', '--field', 'name'])).stdout).toBe('on and off\n')
  })

  test('show finds a tenant by name and id; an unknown one is exit 3', async () => {
    const { stdout } = await tenants(['show', 'default', '-o', 'id'])
    expect((await tenants(['show', stdout.trim(), '--field', 'name'])).stdout).toBe('default\n')
    expect(await tenants(['show', 'nowhere'])).toMatchObject({ exitCode: 3 })
    expect(await tenants(['disable', 'nowhere'])).toMatchObject({ exitCode: 3 })
  })
})

describe('with a scripted gateway', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())
  const tenants = (words: string[], options: CliOptions = {}) =>
    runCli(['tenants', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

  test('create prints tenant, administrator and key with the secret as JSON, and without it next to --save-to', async () => {
    const whole = JSON.parse((await tenants(['create', 'acme', ...ADMIN, '--json'])).stdout)
    expect(whole).toMatchObject({
      name: 'acme',
      admin: { role: 'admin' },
      apiKey: { name: 'administrator' },
      secret: SECRET,
    })
    const path = join(folder, 'acme.key')
    const saved = await tenants(['create', 'acme', ...ADMIN, '--json', '--save-to', path])
    const { secret: _, ...rest } = whole
    expect(JSON.parse(saved.stdout)).toEqual(rest)
    expect(await readFile(path, 'utf8')).toBe(`${SECRET}\n`)
    expect(gateway.requests[0]?.json).toEqual({ name: 'acme', admin: { name: 'Ada', email: 'ada@example.com' } })
  })

  test('create that loses the race for the name leaves no file, and does not go on as if there were one', async () => {
    const none = listOf('tenants', [])
    gateway.on('GET /api/admin/tenants', none, listOf('tenants', [tenantNamed('acme')]))
    gateway.on('POST /api/admin/tenants', flatError(409, 'TENANT_NAME_EXISTS', 'Taken.'))
    const path = join(folder, 'acme.key')
    const lost = await tenants(['create', 'acme', ...ADMIN, '--if-not-exists', '--save-to', path, '-o', 'id'])
    expect(lost).toMatchObject({ exitCode: 6, stdout: '' })
    expect(lost.stderr).toContain(`aigw tenants admin-key ${'6'.repeat(24)} --save-to ${path}`)
    expect(await readdir(folder)).toEqual([])
  })

  test.each([
    [['create'], 'NAME'],
    [['create', 'acme'], '--admin-name'],
    [['create', 'acme', '--admin-name', 'Ada'], '--admin-email'],
    [['create', 'acme', ...ADMIN, '-o', 'id'], '--save-to'],
    [['create', 'acme', ...ADMIN, '--if-not-exists', '--strict'], 'cannot compare the administrator'],
    [['admin-key', 'acme', '-o', 'id'], '--save-to'],
    [['admin-key', 'acme', '--force'], '--save-to'],
    [['list', '--status', 'gone'], 'Active, Disabled'],
  ])('%j is a mistake before any request, and names %s', async (words, named) => {
    const { exitCode, stdout, stderr } = await tenants(words)
    expect({ exitCode, stdout, requests: gateway.requests }).toEqual({ exitCode: 2, stdout: '', requests: [] })
    expect(stderr).toContain(named)
  })
})
