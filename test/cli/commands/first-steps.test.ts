/** What a new user meets: wrong keys, wrong addresses, wrong files and narrow terminals. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CLI_CODES } from '../../../src/cli/error-codes.ts'
import { relativeTime } from '../../../src/cli/output/relative-time.ts'
import { ERRORS } from '../../../src/shared/errors.ts'
import { createFakeClock } from '../../fake-clock.ts'
import {
  type FakeGateway,
  flatError,
  json,
  KEY,
  listOf,
  startFakeGateway,
  structuredError,
  WHOAMI,
} from '../fake-gateway.ts'
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

const aigw = (words: string[], options: CliOptions = {}) =>
  runCli(words, {
    ...options,
    env: { XDG_CONFIG_HOME: home, AIGW_BASE_URL: gateway.url, NO_COLOR: '1', ...options.env },
  })
const withKey = (words: string[], options: CliOptions = {}) =>
  aigw(words, { ...options, env: { AIGW_API_KEY: KEY, ...options.env } })
const jsonError = async (words: string[]) =>
  JSON.parse((await withKey([...words, '-o', 'json', '--retries', '0'])).stderr)

describe('a rejected key', () => {
  const login = () => aigw(['login', '--with-token', '-P', 'work'], { stdin: KEY })
  const reject = () => gateway.on('GET /api/external/whoami', flatError(401, 'Invalid API key', 'Unknown API key.'))

  test('of AIGW_API_KEY is named, with the saved key that it overrides', async () => {
    await login()
    const signedIn = await aigw(['login', '--with-token', '-P', 'work'], {
      stdin: KEY,
      env: { AIGW_API_KEY: 'sk-old' },
    })
    expect(signedIn.stderr).toContain('note: AIGW_API_KEY is set and overrides the saved key')
    reject()
    const { exitCode, stderr } = await aigw(['whoami', '-P', 'work'], { env: { AIGW_API_KEY: 'sk-old' } })
    expect(exitCode).toBe(4)
    expect(stderr).toContain("  The key came from AIGW_API_KEY, which overrides the key of profile 'work'.\n")
    expect(stderr).toContain('  Use the saved key:  unset AIGW_API_KEY\n')
    expect(stderr).not.toContain('Sign in again')
  })

  test('of a profile or a file is named', async () => {
    await login()
    reject()
    const stored = await aigw(['whoami', '-P', 'work'])
    expect(stored.stderr).toContain(`The key came from profile 'work' (${join(home, 'aigw/credentials.yaml')}).`)
    expect(stored.stderr).toContain('aigw login -P work')
    const file = join(home, 'key')
    await writeFile(file, 'sk-file', { mode: 0o600 })
    const fromFile = await aigw(['whoami', '-P', 'work', '--api-key-file', file])
    expect(fromFile.stderr).toContain(`The key came from --api-key-file ${file}, which overrides`)
    const ofEnv = await aigw(['whoami'], { env: { AIGW_API_KEY_FILE: file } })
    expect(ofEnv.stderr).toContain('The key came from AIGW_API_KEY_FILE, which overrides')
  })

  test('is reported by chat as well', async () => {
    gateway.on(CHAT, flatError(401, 'Invalid API key', 'Unknown API key.'))
    const { stderr } = await withKey(['chat', '-m', 'a/b', 'hi'])
    expect(stderr).toContain('The key came from AIGW_API_KEY.')
  })
})

test('whoami shows rights, models, limits and expiry', async () => {
  gateway.on(
    'GET /api/external/whoami',
    json(200, {
      ...WHOAMI,
      api_key: {
        ...WHOAMI.api_key,
        allowedModels: ['openai/*'],
        allowedIndexes: [],
        dailyLimit: 100,
        monthlyLimit: null,
        rateLimit: { requestsPerMinute: 60, requestsPerHour: null },
        expiresAt: '2026-01-04T00:00:00.000Z',
      },
      permissions: [{ section: 'analytics', level: 'reader' }],
    }),
  )
  const { stdout } = await withKey(['whoami'], { terminal: { stdout: true } })
  expect(stdout).toMatch(/RIGHTS +analytics=reader\n/)
  expect(stdout).toMatch(/MODELS +openai\/\*\n/)
  expect(stdout).toMatch(/INDEXES +any\n/)
  expect(stdout).toMatch(/PER MINUTE +60\n/)
  expect(stdout).toMatch(/PER DAY +100\n/)
  expect(stdout).toMatch(/PER MONTH +none\n/)
  expect(stdout).toMatch(/EXPIRES +.*\(2026-01-04T00:00:00.000Z\)\n/)
})

test('all models rate limited exits 7 with the time', async () => {
  const attempts = [{ model: 'a/b', status: 'failed', reason: 'rate_limit', latency_ms: 9 }]
  const body = {
    success: false,
    error: 'All model attempts failed',
    message: 'All 1 failed',
    attempts,
    request_id: 'r',
  }
  gateway.on(CHAT, json(429, body, { 'retry-after': '90' }))
  const clock = createFakeClock()
  const { exitCode, stderr } = await withKey(['chat', '-m', 'a/b', 'hi'], { io: { clock } })
  expect(exitCode).toBe(7)
  const at = new Date(clock.now() + 90_000).toISOString().replace('.000Z', 'Z')
  expect(stderr).toContain(`Try again in 90 seconds, at ${at}.`)
})

describe('the code of an error', () => {
  test.each([
    [429, 'Rate limit exceeded', 'RATE_LIMIT_EXCEEDED'],
    [429, 'All model attempts failed', 'ALL_MODELS_RATE_LIMITED'],
    [502, 'All model attempts failed', 'ALL_MODELS_FAILED'],
    [400, 'Invalid max_tokens', 'VALIDATION_ERROR'],
    [403, 'Access denied', 'INSUFFICIENT_PERMISSIONS'],
    [418, 'Out of tea', 'HTTP_ERROR'],
  ])('%i "%s" is %s', async (status, label, code) => {
    gateway.on('GET /api/external/whoami', flatError(status, label, 'No.'))
    expect(await jsonError(['whoami'])).toMatchObject({ code, http_status: status })
  })

  test('of a structured body stays', async () => {
    gateway.on('GET /api/external/whoami', structuredError(409, 'GROUP_NAME_EXISTS', 'No.'))
    expect((await jsonError(['whoami'])).code).toBe('GROUP_NAME_EXISTS')
  })

  test('is listed in docs/cli.md', async () => {
    const page = await readFile(join(import.meta.dirname, '../../../docs/cli.md'), 'utf8')
    const [, section = ''] = page.split('### Error codes\n')
    const listed = [...(section.split('\n## ')[0] ?? '').matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code)
    expect(listed.sort()).toEqual(Object.keys(CLI_CODES).sort())
  })

  test('is a word of upper case', () => {
    for (const code of [...Object.keys(CLI_CODES), ...Object.keys(ERRORS)]) expect(code).toMatch(/^[A-Z]+(_[A-Z]+)*$/)
  })
})

describe('a wrong address or file', () => {
  test('a server that is no gateway says so, and does not look like a missing resource', async () => {
    const page = { 'content-type': 'text/html' }
    gateway.on(
      'GET /api/external/whoami',
      (_, response) => void response.writeHead(404, page).end('<h1>Not Found</h1>'),
    )
    const { exitCode, stderr } = await withKey(['whoami'])
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr:
        `error: ${gateway.url} is not an aigw gateway (it answered 404)\n` +
        '  Is this the address of an aigw gateway?  aigw profiles list\n',
    })
    expect(await jsonError(['whoami'])).toMatchObject({ code: 'NOT_A_GATEWAY' })
  })

  test.each([
    [['chat', '-m', 'a/b', '-f']],
    [['indexes', 'add', 'handbook']],
    [['shield', 'check']],
    [['policies', 'create', 'x', '-d', 'x', '--from-file']],
  ])('%j with a missing file names the file', async (words) => {
    const path = join(home, 'missing.txt')
    const { exitCode, stderr } = await withKey([...words, path])
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(`${path}`)])
    expect(stderr).toMatch(/no such file|does not exist/)
  })

  test.each([
    ['zero bytes', Buffer.from('PNG\0\0data')],
    ['a PDF of ASCII', Buffer.from('%PDF-1.4\n1 0 obj\n')],
    ['invalid UTF-8', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff])],
  ])('chat -f refuses %s', async (_, bytes) => {
    const path = join(home, 'file')
    await writeFile(path, bytes)
    const { exitCode, stderr } = await withKey(['chat', '-m', 'a/b', '-f', path, 'hi'])
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/is a binary file, not text|is not UTF-8 text/)
    expect(gateway.requests).toEqual([])
  })
})

describe('an error about a member', () => {
  test('names the flag of chat', async () => {
    gateway.on(CHAT, flatError(400, 'Invalid max_tokens', 'max_tokens must be a whole number.'))
    const { stderr } = await withKey(['chat', '-m', 'a/b', '--max-tokens', '1.5', 'hi'])
    expect(stderr).toContain('error: --max-tokens must be a whole number. (Invalid --max-tokens)\n')
  })

  test('names the flag of an administrative command', async () => {
    const details = { field: 'rateLimit.requestsPerMinute', value: 99999 }
    const error = { code: 'VALIDATION_ERROR', message: 'rateLimit.requestsPerMinute may be at most 9', details }
    gateway.on('POST /api/admin/api-keys', json(400, { success: false, error, request_id: 'r' }))
    const { stderr } = await withKey(['keys', 'create', '--name', 'ci', '--rpm', '99999'])
    expect(stderr).toContain('error: --rpm may be at most 9 (VALIDATION_ERROR)\n')
    expect(stderr).toContain('Flag:  --rpm')
    expect(stderr).not.toContain('requestsPerMinute')
  })
})

describe('tables', () => {
  const lists = ['groups', 'roles', 'users', 'keys', 'webhooks', 'policies', 'indexes', 'tenants', 'incidents']
  test.each(lists)('%s list fits 60 columns', async (noun) => {
    const { exitCode, stdout } = await withKey([noun, 'list'], { terminal: { stdout: true }, columns: 60 })
    expect(exitCode).toBe(0)
    for (const line of stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(60)
  })

  test('times are relative on terminals and absolute elsewhere', async () => {
    const clock = createFakeClock()
    const createdAt = new Date(clock.now() - 2 * 86_400_000).toISOString()
    const group = { id: '3'.repeat(24), name: 'ops', status: 'Active', userCount: 1, users: [], createdAt }
    gateway.on('GET /api/external/groups', listOf('groups', [group]))
    const list = (words: string[], stdout: boolean) =>
      withKey(['groups', 'list', ...words], { terminal: { stdout }, io: { clock } })
    expect((await list([], true)).stdout).toContain('2 days ago')
    expect((await list([], false)).stdout).toContain(createdAt)
    expect((await list(['-o', 'json'], true)).stdout).toContain(createdAt)
  })

  test.each([
    [0, 'now'],
    [-5_000, '5 s ago'],
    [-60_000, '1 min ago'],
    [7_200_000, 'in 2 h'],
    [86_400_000, 'in 1 day'],
    [-45 * 86_400_000, '1 month ago'],
    [-800 * 86_400_000, '2 years ago'],
  ])('a time %i ms away is %s', (ms, text) => {
    const now = Date.UTC(2026, 0, 1)
    expect(relativeTime(new Date(now + ms).toISOString(), now)).toBe(text)
  })
})
