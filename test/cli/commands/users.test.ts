import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { CALL_TIMEOUT_MS } from '../../../src/cli/api/client.ts'
import { Interrupted } from '../../../src/cli/errors.ts'
import { type Clock, systemClock } from '../../../src/shared/time.ts'
import { sharedGateway } from '../../harness.ts'
import {
  type FakeGateway,
  json,
  KEY,
  listOf,
  type Script,
  startFakeGateway,
  structuredError,
  userNamed,
} from '../fake-gateway.ts'
import { type CliOptions, captured, runCli } from '../run-cli.ts'

const STRICT = ['--if-not-exists', '--strict']

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const users = (words: string[], options: CliOptions = {}) =>
    runCli(['users', ...words], {
      ...options,
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey, NO_COLOR: '1' },
    })
  const shown = async (user: string) => JSON.parse((await users(['show', user, '--json'])).stdout)
  const create = (name: string, ...more: string[]) =>
    users(['create', name, '--email', `${name}@example.com`, '-o', 'id', ...more])

  let roleId = ''
  beforeAll(async () => {
    const role = { name: 'auditor', displayName: 'Auditor', description: 'Reads along' }
    roleId = (await gateway.current.call('POST', '/api/external/roles', role)).body.role.id
  })

  test('create prints the user, and show finds them by id, email, username and name', async () => {
    const flags = ['--username', 'Ada.L', '--role', 'globalReader', '--license', 'early access']
    const made = await users(['create', 'Ada Lovelace', '--email', 'Ada@Example.com', ...flags, '--json'])
    expect(made).toMatchObject({ exitCode: 0, stderr: '' })
    const user = JSON.parse(made.stdout)
    expect(user).toMatchObject({ email: 'ada@example.com', username: 'ada.l', role: 'globalReader' })
    expect(user.license).toBe('Early Access')
    for (const said of [user.id, user.id.toUpperCase(), 'ADA@example.com', 'Ada.l', 'Ada Lovelace']) {
      expect((await users(['show', said, '-o', 'id'])).stdout).toBe(`${user.id}\n`)
    }
    expect(await users(['show', 'nobody'])).toMatchObject({ exitCode: 3, stdout: '' })
  })

  test('create --if-not-exists finds the user by email, also one that names a custom role', async () => {
    const again = (...more: string[]) => create('Ben', '--custom-role', 'auditor', '--if-not-exists', ...more)
    const first = await again()
    expect(first).toMatchObject({ exitCode: 0, stderr: '' })
    expect(await again('--strict', '--username', 'BEN')).toEqual({
      exitCode: 0,
      stdout: first.stdout,
      stderr: "note: user 'ben@example.com' already exists; left unchanged\n",
    })
    expect((await again('--license', 'Growth')).stderr).toContain('(differs: license)')
    const strict = await users(['create', 'Ben', '--email', 'ben@example.com', '--role', 'admin', ...STRICT])
    expect(strict).toMatchObject({ exitCode: 6, stdout: '', stderr: expect.stringContaining('differs: role') })
    expect((await shown('ben')).customRole).toMatchObject({ id: roleId, name: 'auditor' })
  })

  test('a conflict names the member: an email refers to its user, a username to another username', async () => {
    await create('Cyd')
    const email = await users(['create', 'Cyd II', '--email', 'cyd@example.com'])
    expect(email).toMatchObject({ exitCode: 6, stdout: '', stderr: expect.stringContaining('--if-not-exists') })
    expect(email.stderr).toContain('aigw users show cyd@example.com')
    const other = ['create', 'Cyd III', '--email', 'cyd3@example.com', '--username', 'cyd']
    for (const words of [other, [...other, '--if-not-exists']]) {
      const { exitCode, stderr } = await users(words)
      expect({ exitCode }).toEqual({ exitCode: 6 })
      expect(stderr).toContain('username')
      expect(stderr).not.toContain('add --if-not-exists')
    }
  })

  test('update changes what it names and nothing else', async () => {
    await create('Dan', '--role-id', roleId, '--license', 'Growth')
    expect(await users(['update', 'dan', '--name', 'Daniel'])).toMatchObject({ exitCode: 0 })
    expect(await shown('dan@example.com')).toMatchObject({
      name: 'Daniel',
      license: 'Growth',
      customRole: { name: 'auditor' },
    })
    await users(['update', 'dan', '--no-custom-role'])
    expect(await shown('dan')).toMatchObject({ customRole: null, license: 'Growth', username: 'dan' })
    const file = JSON.stringify({ license: 'Ultra', setupCompleted: true })
    await users(['update', 'dan', '--from-file', '-', '--license', 'Growth'], { stdin: file })
    expect(await shown('dan')).toMatchObject({ license: 'Growth', setupCompleted: true, name: 'Daniel' })
    expect(await users(['update', 'dan'])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('update --help'),
    })
    expect(await users(['update', 'nobody', '--name', 'x'])).toMatchObject({ exitCode: 3 })
  })

  test('assign-role gives system roles and custom ones, by name or id, and leaves the other kind alone', async () => {
    await create('Eve')
    expect(await users(['assign-role', 'eve', 'auditor'])).toMatchObject({ exitCode: 0 })
    expect(await users(['assign-role', 'eve', 'globalReader'])).toMatchObject({ exitCode: 0 })
    expect(await shown('eve')).toMatchObject({ role: 'globalReader', customRole: { name: 'auditor' } })
    const roles = await gateway.current.call('GET', '/api/external/roles?search=user')
    const user = roles.body.roles.find(({ name }: { name: string }) => name === 'user')
    expect(await users(['assign-role', 'eve', user.id])).toMatchObject({ exitCode: 0 })
    expect(await shown('eve')).toMatchObject({ role: 'user', customRole: { id: roleId } })
    expect(await users(['assign-role', 'eve', 'nothing'])).toMatchObject({ exitCode: 3 })
  })

  test('update gives a user dollars and takes them away, each member by itself', async () => {
    await create('Hal')
    const steps = [
      [['--usage-by-model', 'on', '--dollar-limit', '12.50'], { enabled: true, dollarLimit: 12.5 }],
      [['--usage-by-model', 'off'], { enabled: false, dollarLimit: 12.5 }],
      [['--dollar-limit', 'none'], { enabled: false, dollarLimit: null }],
    ] as const
    for (const [flags, usageByModel] of steps) {
      expect(await users(['update', 'hal', ...flags])).toMatchObject({ exitCode: 0 })
      expect(await shown('hal')).toMatchObject({ usageByModel })
    }
  })

  test('disable and enable may be repeated, and show in the list', async () => {
    await create('Fay')
    for (const [verb, status] of [
      ['disable', 'inactive'],
      ['disable', 'inactive'],
      ['enable', 'active'],
    ] as const) {
      const line = [verb, 'fay', '--fields', 'name,status', '--no-headers']
      expect(await users(line)).toEqual({ exitCode: 0, stdout: `Fay\t${status}\n`, stderr: '' })
    }
    await users(['disable', 'fay'])
    expect((await users(['list', '--status', 'inactive', '--field', 'name'])).stdout).toBe('Fay\n')
    expect((await users(['list', '--role', 'user', '--search', 'FAY', '-o', 'id'])).stdout).toMatch(/^[0-9a-f]{24}\n$/)
  })

  test('delete asks, and --ignore-not-found makes a second time a success', async () => {
    await create('Gil')
    expect(await users(['delete', 'gil'])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--yes') })
    expect(await users(['rm', 'gil', '--yes'])).toEqual({ exitCode: 0, stdout: '', stderr: "Deleted user 'gil'.\n" })
    expect(await users(['delete', 'gil', '--yes'])).toMatchObject({ exitCode: 3 })
    expect(await users(['delete', 'gil', '--yes', '--ignore-not-found'])).toMatchObject({ exitCode: 0 })
  })

  test('the owner of the operator key stays what they are: exit 5', async () => {
    for (const words of [
      ['delete', 'admin', '--yes'],
      ['assign-role', 'admin', 'user'],
      ['disable', 'admin'],
    ]) {
      expect(await users(words)).toMatchObject({ exitCode: 5, stdout: '' })
    }
    expect(await shown('admin')).toMatchObject({ role: 'admin', status: 1 })
  })
})

describe('with a scripted gateway', () => {
  let gateway: FakeGateway
  let folder: string
  beforeEach(async () => {
    gateway = await startFakeGateway()
    folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
  })
  afterEach(async () => {
    await rm(folder, { recursive: true })
    await gateway.close()
  })
  const users = (words: string[], options: CliOptions = {}) =>
    runCli(['users', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

  test('create takes its fields from a file, and flags win over it', async () => {
    const path = join(folder, 'user.yaml')
    await writeFile(path, 'name: Ada\nemail: ada@example.com\nlicense: Growth\nsetupCompleted: true\n')
    expect(await users(['create', '--from-file', path, '--license', 'ultra'])).toMatchObject({ exitCode: 0 })
    expect(gateway.requests[0]?.json).toEqual({
      name: 'Ada',
      email: 'ada@example.com',
      license: 'Ultra',
      setupCompleted: true,
    })
    const typo = await users(['create', '--from-file', '-'], { stdin: '{"name":"Ada","emial":"x"}' })
    expect(typo).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("Did you mean 'email'?") })
  })

  test.each([
    [['create'], 'NAME'],
    [['create', 'Ada'], '--email'],
    [['create', 'Ada', '--email', 'a@b.c', '--license', 'Gold'], 'Essential, Growth, Ultra, Early Access'],
    [['create', 'Ada', '--email', 'a@b.c', '--role', 'root'], 'admin, user, globalReader'],
    [['create', 'Ada', '--email', 'a@b.c', '--custom-role', 'a', '--role-id', 'b'], 'cannot be used with'],
    [['update', 'ada', '--no-custom-role', '--role-id', 'b'], 'cannot be used with'],
    [['update', 'ada', '--no-custom-role', '--custom-role', 'b'], 'contradict'],
    [['update', 'ada', '--custom-role', 'b', '--no-custom-role'], 'contradict'],
    [['update', 'ada', '--usage-by-model', 'maybe'], 'on, off'],
    [['update', 'ada', '--dollar-limit', '-5'], '12.50'],
    [['list', '--status', 'gone'], 'inactive, active'],
    [['list', '--limit', '0'], '--limit'],
  ])('%j is a mistake before any request, and names %s', async (words, named) => {
    const { exitCode, stdout, stderr } = await users(words)
    expect({ exitCode, stdout, requests: gateway.requests }).toEqual({ exitCode: 2, stdout: '', requests: [] })
    expect(stderr).toContain(named)
  })

  test('a name is found without the white space around it; one longer than there can be is not asked for', async () => {
    expect(await users(['show', ' ada@example.com\n', '-o', 'id'])).toMatchObject({ exitCode: 0 })
    const id = 'e'.repeat(24)
    expect((await users(['show', ` ${id}\n`, '-o', 'id'])).stdout).toBe(`${id}\n`)
    const asked = gateway.requests.length
    for (const nobody of ['x'.repeat(255), ' ', '']) {
      expect(await users(['show', nobody])).toMatchObject({ exitCode: 3, stdout: '' })
      expect(await users(['delete', nobody, '--yes', '--ignore-not-found'])).toMatchObject({ exitCode: 0 })
    }
    expect(gateway.requests).toHaveLength(asked)
    const email = `${'x'.repeat(230)}@example.com`
    gateway.on('GET /api/external/users', listOf('users', [userNamed('Ada', { email })]))
    expect(await users(['show', email, '-o', 'id'])).toMatchObject({ exitCode: 0 })
    const search = new URL(gateway.requests.at(-1)?.path ?? '', gateway.url).searchParams.get('search')
    expect(search).toBe(email.slice(0, 200))
  })

  test('a row that is none is no answer of a gateway', async () => {
    const id = 'e'.repeat(24)
    for (const [route, body] of [
      [
        'GET /api/external/users',
        json(200, { success: true, users: [null], pagination: { page: 1, limit: 50, total: 1, pages: 1 } }),
      ],
      [`GET /api/external/users/${id}`, json(200, { success: true, user: null })],
    ] as const) {
      gateway.on(route, body)
      const { exitCode, stderr } = await users(['show', route.endsWith(id) ? id : 'ada', '--json'])
      expect({ exitCode, code: JSON.parse(stderr).code }).toEqual({ exitCode: 1, code: 'NOT_A_GATEWAY' })
    }
  })

  test('a user who is given by id and is not there is looked for by name, and else it is a 404', async () => {
    const id = '0'.repeat(24)
    gateway.on(`DELETE /api/external/users/${id}`, structuredError(404, 'USER_NOT_FOUND', 'Nobody.'))
    gateway.on('GET /api/external/users', listOf('users', []))
    const gone = await users(['delete', id, '--yes'])
    expect(gone).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('USER_NOT_FOUND') })
    gateway.on('GET /api/external/users', listOf('users', [userNamed('Ada', { username: id })]))
    expect(await users(['delete', id, '--yes'])).toMatchObject({ exitCode: 0 })
    expect(gateway.requests.at(-1)).toMatchObject({ method: 'DELETE', path: `/api/external/users/${'e'.repeat(24)}` })
  })

  const page = (at: number, name: string) =>
    json(200, { success: true, users: [userNamed(name)], pagination: { page: at, limit: 100, total: 2, pages: 2 } })
  const limited = (retryAfter: string) =>
    json(
      429,
      { success: false, error: { code: 'RATE_LIMIT_EXCEEDED', message: 'Slow down.' } },
      { 'retry-after': retryAfter },
    )
  /** Pauses end at once and are remembered; all other timers are real. */
  const hasty = (pauses: number[]): Clock => ({
    ...systemClock,
    after(ms, run) {
      if (ms <= CALL_TIMEOUT_MS) return systemClock.after(ms, run)
      pauses.push(ms)
      return systemClock.after(0, run)
    },
  })

  test('list --all waits for a rate limit between two pages, and notes it', async () => {
    gateway.on('GET /api/external/users', page(1, 'Ada'), limited('33'), limited('32'), page(2, 'Ben'))
    const pauses: number[] = []
    const listed = await users(['list', '--all', '--field', 'name'], { io: { clock: hasty(pauses) } })
    expect(listed).toEqual({
      exitCode: 0,
      stdout: 'Ada\nBen\n',
      stderr:
        'note: the gateway limits requests; continuing in 33 s\nnote: the gateway limits requests; continuing in 32 s\n',
    })
    expect(pauses).toEqual([33_000, 32_000])
  })

  test('list waits no longer than 65 seconds for one page, not at all without --all, and ends with Ctrl-C', async () => {
    const pauses: number[] = []
    const list = async (words: string[], ...scripts: Script[]) => {
      gateway.on('GET /api/external/users', ...scripts)
      return (await users(['list', ...words], { io: { clock: hasty(pauses) } })).exitCode
    }
    expect(await list(['--all'], page(1, 'Ada'), limited('40'), limited('40'))).toBe(7)
    expect(pauses).toEqual([40_000])
    expect(await list(['--all'], page(1, 'Ada'), limited('3600'))).toBe(7)
    expect(await list([], limited('40'))).toBe(7)
    expect(pauses).toEqual([40_000])

    gateway.on('GET /api/external/users', page(1, 'Ada'), limited('40'))
    const stopping = new AbortController()
    const stderr = captured()
    stderr.stream.on('drained', () => stopping.abort(new Interrupted('SIGINT')))
    const stopped = await users(['list', '--all'], { io: { signal: stopping.signal, stderr: stderr.stream } })
    expect(stopped).toMatchObject({ exitCode: 130, stdout: '' })
  })

  test('a name that two users have is not guessed at', async () => {
    const twins = [userNamed('Ada'), userNamed('Bob', { id: 'f'.repeat(24), name: 'ada' })]
    gateway.on('GET /api/external/users', listOf('users', twins))
    const { exitCode, stderr } = await users(['disable', 'ada'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(`${'e'.repeat(24)} or ${'f'.repeat(24)}`)
    expect(gateway.requests.map(({ method }) => method)).toEqual(['GET'])
  })

  test('--dry-run shows the request and sends nothing', async () => {
    const { exitCode, stdout } = await users(['disable', 'ada', '--dry-run', '--json'])
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ method: 'PUT', body: { status: 0 } })
    expect(gateway.requests.every(({ method }) => method === 'GET')).toBe(true)
  })
})
