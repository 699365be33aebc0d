import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { toExpiry } from '../../../src/cli/commands/keys/expiry.ts'
import { sharedGateway } from '../../harness.ts'
import { type FakeGateway, flatError, json, KEY, keyNamed, listOf, SECRET, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

const IS_SECRET = /^sk-[0-9a-f]{64}\n$/

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(() => rm(folder, { recursive: true }))

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const keys = (words: string[], options: CliOptions = {}) =>
    runCli(['keys', ...words], {
      ...options,
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey, NO_COLOR: '1' },
    })
  const shown = async (key: string) => JSON.parse((await keys(['show', key, '--json'])).stdout)
  const statusWith = async (secret: string, path = '/api/external/whoami') =>
    (await gateway.current.call('GET', path, undefined, { key: secret.trim() })).status
  const count = async () => (await gateway.current.call('GET', '/api/admin/api-keys')).body.pagination.total

  beforeAll(async () => {
    await gateway.current.call('POST', '/api/external/users', { name: 'Ada', email: 'ada@example.com', role: 'admin' })
  })

  test('create prints the secret alone, and every word on stderr', async () => {
    for (const format of ['table', 'tsv']) {
      const { exitCode, stdout, stderr } = await keys(['create', '--name', `plain ${format}`, '-o', format])
      expect(exitCode).toBe(0)
      expect(stdout).toMatch(IS_SECRET)
      expect(stderr).toMatch(/^Created API key 'plain \w+' \([0-9a-f]{24}\)\. Its secret cannot be shown again\.\n$/)
      expect(await statusWith(stdout)).toBe(200)
    }
    expect(await keys(['create', '--name', 'quiet', '-q'])).toMatchObject({ stderr: '' })
  })

  test('create makes a key without administrator rights, whoever owns it, unless --admin', async () => {
    const usual = await keys(['create', '--name', 'usual', '--user', 'ada'])
    const strong = await keys(['create', '--name', 'strong', '--user', 'ada@example.com', '--admin'])
    expect(await statusWith(usual.stdout, '/api/external/users')).toBe(403)
    expect(await statusWith(strong.stdout, '/api/external/users')).toBe(200)
    expect(await shown('usual')).toMatchObject({ adminAccess: false, user: { email: 'ada@example.com' } })
  })

  test('every flag of create is a restriction of the key', async () => {
    const flags = [
      ...['--model', 'openai/*', '--model', 'local/extract', '--index', 'My Handbook!', '--index', 'none'],
      ...['--policy', 'public', '--default-policy', 'public', '--daily', '7', '--monthly', 'none', '--rpm', '5'],
      ...['--rph', 'none', '--allow-ip', '10.0.0.0/8', '--allow-ip', '::1', '--expires', '2099-01-31'],
      ...['--failover', 'openai/a, local/extract', '--billing-mode', 'user-completions'],
      ...['--index-access', 'write'],
      ...['--limit-messages', '50', '--limit-content', '100000', '--limit-body', '200000', '--limit-depth', '20'],
      ...['--limit-tools', '10', '--limit-tokens', '2000', '--default-tokens', '500'],
    ]
    const { stdout } = await keys(['create', '--name', 'narrow', ...flags, '--json'])
    const made = JSON.parse(stdout)
    expect(made).toMatchObject({
      allowedModels: ['openai/*', 'local/extract'],
      allowedIndexes: ['my-handbook', 'Zero-Knowledge'],
      indexAccess: 'write',
      allowedSMLTPPolicies: ['public'],
      defaultSMLTPPolicy: 'public',
      dailyLimit: 7,
      monthlyLimit: null,
      rateLimit: { requestsPerMinute: 5, requestsPerHour: null },
      limits: {
        messages: 50,
        contentBytes: 100_000,
        bodyBytes: 200_000,
        jsonDepth: 20,
        tools: 10,
        maxTokens: 2_000,
        defaultMaxTokens: 500,
      },
      allowedIPs: ['10.0.0.0/8', '::1'],
      expiresAt: '2099-01-31T00:00:00.000Z',
      failoverDefaults: { models: ['openai/a', 'local/extract'] },
    })
    expect(`${made.secret}\n`).toMatch(IS_SECRET)
    expect(await shown('narrow')).not.toHaveProperty('secret')
    await keys(['update', 'narrow', '--limit-tokens', 'none', '--limit-tools', '5'])
    expect(await shown('narrow')).toMatchObject({ limits: { maxTokens: null, tools: 5, messages: 50 } })
    expect((await keys(['show', 'narrow'])).stdout).toContain('messages 50, contentBytes 100000')
  })

  test('create --save-to keeps the secret in a file of mode 0600, and off stdout', async () => {
    const path = join(folder, 'ci.key')
    const made = await keys(['create', '--name', 'saved', '--save-to', path, '-o', 'id'])
    expect(made.exitCode).toBe(0)
    expect(made.stdout).toMatch(/^[0-9a-f]{24}\n$/)
    expect(made.stderr).toContain(`Its secret is in ${path} (mode 0600) and cannot be shown again.`)
    const secret = await readFile(path, 'utf8')
    expect(secret).toMatch(IS_SECRET)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await statusWith(secret)).toBe(200)
    for (const format of ['table', 'json', 'ndjson', 'yaml', 'tsv']) {
      const { stdout } = await keys(['create', '--name', 'x', '--save-to', join(folder, format), '-o', format])
      expect(stdout).not.toContain('sk-')
    }
  })

  test('create --if-not-exists twice is one key and one secret, whose file stays as it was', async () => {
    const path = join(folder, 'twice.key')
    const create = (...more: string[]) =>
      keys(['create', '--name', 'twice', '--save-to', path, '--if-not-exists', '-o', 'id', ...more])
    const flags = ['--user', 'ada', '--model', 'local/*', '--expires', '90d']
    const first = await create(...flags)
    const secret = await readFile(path, 'utf8')
    const before = await count()
    expect(await create(...flags, '--strict')).toEqual({
      exitCode: 0,
      stdout: first.stdout,
      stderr: "note: API key 'twice' already exists; left unchanged\n",
    })
    expect(await readFile(path, 'utf8')).toBe(secret)
    expect(await count()).toBe(before)
    const differing = await create('--user', 'ada', '--model', 'local/extract', '--admin', '--strict')
    expect(differing).toMatchObject({ exitCode: 6, stdout: '' })
    expect(differing.stderr).toContain('differs: adminAccess, allowedModels')

    await rm(path)
    const gone = await create('--user', 'ada')
    expect(gone).toMatchObject({ exitCode: 6, stdout: '' })
    expect(gone.stderr).toContain(`aigw keys rotate ${first.stdout.trim()} --save-to ${path}`)
    expect(await readdir(folder)).toEqual([])

    // Of another owner, and after it was revoked, it is another key.
    expect((await create()).stdout).not.toBe(first.stdout)
    await keys(['revoke', first.stdout.trim(), '--yes'])
    await rm(path)
    expect((await create('--user', 'ada')).stdout).not.toBe(first.stdout)
  })

  test('create --if-not-exists prints what exists, with no secret', async () => {
    await keys(['create', '--name', 'there'])
    const again = await keys(['create', '--name', 'there', '--if-not-exists', '--json'])
    expect(again.exitCode).toBe(0)
    expect(JSON.parse(again.stdout)).toMatchObject({ name: 'there', secret: null })
    for (const format of ['table', 'tsv']) {
      const plain = await keys(['create', '--name', 'there', '--if-not-exists', '-o', format])
      expect(plain).toMatchObject({ exitCode: 0, stdout: '' })
      expect(plain.stderr).toContain("note: API key 'there' already exists; left unchanged")
      expect(plain.stderr).toContain('aigw keys rotate ')
    }
  })

  test('update changes what it names and nothing else', async () => {
    const file = join(folder, 'key.json')
    await writeFile(
      file,
      '{"failoverDefaults":{"models":["local/extract"],"timeout_ms":9000},"enablePromptShield":true}',
    )
    const made = ['--daily', '7', '--rpm', '5', '--rph', '50', '--model', 'local/*', '--expires', '12h']
    await keys(['create', '--name', 'changing', '--from-file', file, ...made])
    const before = await shown('changing')
    expect(before).toMatchObject({ failoverDefaults: { timeout_ms: 9_000 }, enablePromptShield: true })
    expect(await keys(['update', 'changing', '--rpm', 'none', '--failover', 'openai/a'])).toMatchObject({ exitCode: 0 })
    expect(await shown('changing')).toEqual({
      ...before,
      updatedAt: expect.any(String),
      rateLimit: { requestsPerMinute: null, requestsPerHour: 50 },
      failoverDefaults: { ...before.failoverDefaults, models: ['openai/a'] },
    })
    const clear = ['--any-model', '--expires', 'never', '--failover', 'none', '--daily', 'none', '--admin']
    await keys(['update', 'changing', ...clear])
    expect(await shown('changing')).toMatchObject({
      allowedModels: [],
      expiresAt: null,
      failoverDefaults: null,
      dailyLimit: null,
      adminAccess: true,
    })
    await keys(['update', 'changing', '--no-admin'])
    expect(await shown('changing')).toMatchObject({ adminAccess: false, dailyLimit: null })
    expect(await keys(['update', 'changing'])).toMatchObject({ exitCode: 2 })
  })

  test('rotate asks, replaces the secret, and the old one stops', async () => {
    const old = (await keys(['create', '--name', 'turning'])).stdout
    expect(await keys(['rotate', 'turning'])).toMatchObject({ exitCode: 2, stdout: '' })
    expect(await statusWith(old)).toBe(200)
    const fresh = await keys(['rotate', 'turning', '--yes'])
    expect(fresh.stdout).toMatch(IS_SECRET)
    expect([await statusWith(old), await statusWith(fresh.stdout)]).toEqual([401, 200])

    const path = join(folder, 'turning.key')
    await writeFile(path, 'mine')
    expect(await keys(['rotate', 'turning', '--yes', '--save-to', path])).toMatchObject({ exitCode: 2, stdout: '' })
    expect(await statusWith(fresh.stdout)).toBe(200)
    const saved = await keys(['rotate', 'turning', '--yes', '--save-to', path, '--force', '--field', 'name'])
    expect(saved).toMatchObject({ exitCode: 0, stdout: 'turning\n' })
    expect(await statusWith(await readFile(path, 'utf8'))).toBe(200)
  })

  test('revoke ends the key for good, and may be repeated by its id', async () => {
    const { stdout } = await keys(['create', '--name', 'ending', '--json'])
    const { id, secret } = JSON.parse(stdout)
    expect(await keys(['revoke', 'ending', '--yes'])).toMatchObject({
      exitCode: 0,
      stderr: "Revoked API key 'ending'.\n",
    })
    expect(await statusWith(secret)).toBe(401)
    expect(await keys(['rm', id, '--yes'])).toMatchObject({ exitCode: 0 })
    expect(await keys(['revoke', 'ending', '--yes'])).toMatchObject({ exitCode: 3 })
    const ignored = await keys(['revoke', 'ending', '--yes', '--ignore-not-found'])
    expect(ignored).toMatchObject({ exitCode: 0, stderr: "note: there is no API key 'ending'; nothing was revoked\n" })
    expect((await keys(['list', '--status', 'revoked', '-o', 'id'])).stdout).toContain(id)
  })

  test('list chooses by owner, status and name', async () => {
    await keys(['create', '--name', 'listed one', '--user', 'ada'])
    await keys(['create', '--name', 'listed two'])
    const names = async (...words: string[]) =>
      (await keys(['list', '--search', 'LISTED', '--field', 'name', ...words])).stdout
    expect(await names('--user', 'ada')).toBe('listed one\n')
    expect((await names()).split('\n').sort()).toEqual(['', 'listed one', 'listed two'])
    expect(await keys(['list', '--user', 'nobody'])).toMatchObject({ exitCode: 3 })
  })

  test('nothing may be made out of a key that has no administrator rights: exit 5, and no file is left', async () => {
    const { stdout: weak } = await keys(['create', '--name', 'weak'])
    const env = { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: weak.trim() }
    const path = join(folder, 'strong.key')
    const made = await runCli(['keys', 'create', '--name', 'strong', '--admin', '--save-to', path], { env })
    expect(made).toMatchObject({ exitCode: 5, stdout: '' })
    expect(await readdir(folder)).toEqual([])
  })
})

describe('with a scripted gateway', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())
  const keys = (words: string[], options: CliOptions = {}) =>
    runCli(['keys', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

  test('an output that would lose the secret is refused before any request', async () => {
    for (const words of [
      ['-o', 'id'],
      ['--field', 'id'],
      ['--json', '--fields', 'id,name'],
      ['--raw', '--save-to', join(folder, 'k')],
      ['--field', 'secret', '--save-to', join(folder, 'k')],
    ]) {
      expect(await keys(['create', '--name', 'ci', ...words])).toMatchObject({ exitCode: 2, stdout: '' })
      expect(await keys(['rotate', '5'.repeat(24), '--yes', ...words])).toMatchObject({ exitCode: 2, stdout: '' })
    }
    expect(gateway.requests).toEqual([])
    expect(await readdir(folder)).toEqual([])
  })

  test.each([
    [['--field', 'secret'], `${SECRET}\n`],
    [['--fields', 'name,secret', '-o', 'tsv', '--no-headers'], `ci\t${SECRET}\n`],
  ])('%j shows the secret', async (words, stdout) => {
    expect(await keys(['create', '--name', 'ci', ...words])).toMatchObject({ exitCode: 0, stdout })
  })

  test('a terminal shows the secret alone on its own line of stdout too', async () => {
    const { stdout } = await keys(['create', '--name', 'ci'], { terminal: { stdin: true, stdout: true, stderr: true } })
    expect(stdout).toBe(`${SECRET}\n`)
  })

  test('a call that fails leaves no file, and one that cannot be made ready is not sent', async () => {
    gateway.on('POST /api/admin/api-keys', flatError(500, 'Internal error', 'Oops.'))
    const path = join(folder, 'ci.key')
    expect(await keys(['create', '--name', 'ci', '--save-to', path])).toMatchObject({ exitCode: 1, stdout: '' })
    expect(await readdir(folder)).toEqual([])

    gateway.on('POST /api/admin/api-keys', json(201, { success: true, message: '', apiKey: keyNamed('ci') }))
    const without = await keys(['create', '--name', 'ci', '--save-to', path])
    expect(without).toMatchObject({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringContaining('did not answer with a secret'),
    })
    expect(await readdir(folder)).toEqual([])

    const sent = gateway.requests.length
    const missing = join(folder, 'missing', 'ci.key')
    expect(await keys(['create', '--name', 'ci', '--save-to', missing])).toMatchObject({ exitCode: 1 })
    await writeFile(path, 'mine')
    expect(await keys(['create', '--name', 'ci', '--save-to', path])).toMatchObject({ exitCode: 2 })
    expect(gateway.requests).toHaveLength(sent)
    expect(await readFile(path, 'utf8')).toBe('mine')
  })

  test('a key that cannot be made leaves the file that --force was to replace', async () => {
    gateway.on('POST /api/admin/api-keys', flatError(403, 'Access denied', 'No.'))
    const path = join(folder, 'ci.key')
    await writeFile(path, 'mine')
    expect(await keys(['create', '--name', 'ci', '--save-to', path, '--force'])).toMatchObject({ exitCode: 5 })
    expect([await readdir(folder), await readFile(path, 'utf8')]).toEqual([['ci.key'], 'mine'])
  })

  test('--dry-run sends nothing and makes no file', async () => {
    const { exitCode, stdout } = await keys([
      ...['create', '--name', 'ci', '--rpm', '5', '--save-to', join(folder, 'ci.key'), '--dry-run', '--json'],
    ])
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout).body).toEqual({ adminAccess: false, name: 'ci', rateLimit: { requestsPerMinute: 5 } })
    const rotated = await keys(['rotate', '5'.repeat(24), '--dry-run', '--json'])
    expect(JSON.parse(rotated.stdout)).toMatchObject({ method: 'POST' })
    expect(gateway.requests.filter(({ method }) => method !== 'GET')).toEqual([])
    expect(await readdir(folder)).toEqual([])
  })

  test('--dry-run -o id of create prints the request, which has no id', async () => {
    const { exitCode, stdout } = await keys(['create', '--name', 'ci', '--if-not-exists', '--dry-run', '-o', 'id'])
    expect({ exitCode, requests: gateway.requests }).toEqual({ exitCode: 0, requests: [] })
    expect(stdout).toContain('POST')
    expect(stdout).toContain('/api/admin/api-keys')
  })

  test('what is given by its id is not looked up first', async () => {
    const [owner, key] = ['e'.repeat(24), '5'.repeat(24)]
    const lines = [
      ['create', '--name', 'ci', '--user', owner.toUpperCase()],
      ['list', '--user', owner],
      ['update', key, '--daily', '5'],
      ['rotate', key, '--yes'],
      ['revoke', key, '--yes'],
    ]
    for (const line of lines) expect(await keys(line), line.join(' ')).toMatchObject({ exitCode: 0 })
    expect(gateway.requests.map(({ method, path }) => `${method} ${path.replace(/&.*/, '')}`)).toEqual([
      'POST /api/admin/api-keys',
      `GET /api/admin/api-keys?userId=${owner}`,
      `PUT /api/admin/api-keys/${key}`,
      `POST /api/admin/api-keys/${key}/rotate`,
      `DELETE /api/admin/api-keys/${key}`,
    ])
    expect(gateway.requests[0]?.json).toMatchObject({ userId: owner })
  })

  test('flags win over a file member by member, also within its objects', async () => {
    const file = JSON.stringify({
      rateLimit: { requestsPerMinute: 9, requestsPerHour: 90 },
      failoverDefaults: { models: ['a/x'], timeout_ms: 9000 },
      usageByModel: { enabled: true },
    })
    await keys(['create', '--name', 'ci', '--from-file', '-', '--rpm', '5', '--failover', 'b/y'], { stdin: file })
    expect(gateway.requests[0]?.json).toMatchObject({
      rateLimit: { requestsPerMinute: 5, requestsPerHour: 90 },
      failoverDefaults: { models: ['b/y'], timeout_ms: 9000 },
      usageByModel: { enabled: true },
    })
  })

  test.each([
    ['{"rateLimit":{"requestPerMinute":5}}', "rateLimit: unknown member 'requestPerMinute'", 'requestsPerMinute'],
    ['{"usageByModel":{"dolarLimit":5}}', "usageByModel: unknown member 'dolarLimit'", 'dollarLimit'],
    ['{"failoverDefaults":{"model":["a/b"]}}', "failoverDefaults: unknown member 'model'", 'models'],
  ])('the file %s is a mistake before any request', async (stdin, what, meant) => {
    const { exitCode, stderr } = await keys(['create', '--name', 'ci', '--from-file', '-'], { stdin })
    expect({ exitCode, requests: gateway.requests }).toEqual({ exitCode: 2, requests: [] })
    expect(stderr).toContain(what)
    expect(stderr).toContain(`Did you mean '${meant}'?`)
  })

  test('flags that contradict each other are a mistake before any request', async () => {
    expect(await keys(['create', '--name', 'ci', '--force'])).toMatchObject({ exitCode: 2 })
    expect(await keys(['rotate', 'ci', '--yes', '--force'])).toMatchObject({ exitCode: 2 })
    for (const pair of [
      ['--admin', '--no-admin'],
      ['--no-admin', '--admin'],
    ]) {
      const { exitCode, stderr } = await keys(['update', 'ci', ...pair])
      expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining('contradict') })
    }
    expect(gateway.requests).toEqual([])
  })

  test.each([
    [['--daily', '-1'], '--daily'],
    [['--daily', '1.5'], '--daily'],
    [['--rpm', 'lots'], '--rpm'],
    [['--model', 'a/b', '--any-model'], 'cannot be used with'],
    [['--expires', 'tomorrow'], '--expires'],
    [['--billing-mode', 'free'], 'user-completions, usage-by-model'],
    [['--strict'], '--if-not-exists'],
    [['--index', '!'], 'is not a valid index name'],
  ])('create %j is a mistake before any request, and names %s', async (words, named) => {
    const { exitCode, stdout, stderr } = await keys(['create', '--name', 'ci', ...words])
    expect({ exitCode, stdout, requests: gateway.requests }).toEqual({ exitCode: 2, stdout: '', requests: [] })
    expect(stderr).toContain(named)
  })

  test('create names what is missing where nobody can be asked', async () => {
    expect(await keys(['create'])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--name') })
  })

  test('a key of the same name that a gateway finds for somebody else is not taken for it', async () => {
    const others = [
      keyNamed('ci two'),
      keyNamed('ci', { userId: '9'.repeat(24) }),
      keyNamed('ci', { status: 'expired' }),
    ]
    gateway.on('GET /api/admin/api-keys', listOf('apiKeys', others))
    await keys(['create', '--name', 'ci', '--if-not-exists'])
    expect(gateway.requests.map(({ method, path }) => `${method} ${path.split('?')[0]}`)).toEqual([
      'GET /api/external/whoami',
      'GET /api/admin/api-keys',
      'POST /api/admin/api-keys',
    ])
  })
})

describe('when a key expires', () => {
  const now = Date.parse('2026-03-01T12:00:00.000Z')
  test.each([
    ['90d', '2026-05-30T12:00:00.000Z', true],
    ['12h', '2026-03-02T00:00:00.000Z', true],
    ['4w', '2026-03-29T12:00:00.000Z', true],
    ['never', null, false],
    ['2030-01-31', '2030-01-31T00:00:00.000Z', false],
    ['2030-01-31T12:30:00+02:00', '2030-01-31T10:30:00.000Z', false],
  ])('%s is %s', (text, at, isRelative) => {
    expect(toExpiry(text, now)).toEqual({ at, isRelative })
  })

  test.each([
    '',
    '90',
    'd',
    '-1d',
    '1y',
    '2030',
    '2030-13-01',
    '2030-02-30',
    '2030-02-30T10:00:00Z',
    '2030-01-31T12:30',
    '9999999999999d',
    'NaN',
  ])('%j is refused', (text) => {
    expect(() => toExpiry(text, now)).toThrow('--expires must be a time')
  })

  test('any other text is refused or a time, and never anything else', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          const { at } = toExpiry(text, now)
          expect(at === null || Number.isFinite(Date.parse(at))).toBe(true)
        } catch (error) {
          expect(error).toMatchObject({ exitCode: 2 })
        }
      }),
    )
  })
})
