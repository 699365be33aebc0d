import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createFakeClock, type FakeClock } from '../../fake-clock.ts'
import {
  type FakeGateway,
  flatError,
  json,
  KEY,
  logOf,
  logPage,
  type Script,
  startFakeGateway,
  structuredError,
} from '../fake-gateway.ts'
import { type CliOptions, captured, runCli } from '../run-cli.ts'

const LOGS = 'GET /api/external/activity-logs'
const START_MS = Date.parse('2026-01-01T12:00:00.000Z')

let gateway: FakeGateway
let clock: FakeClock
beforeEach(async () => {
  gateway = await startFakeGateway()
  clock = createFakeClock(START_MS)
})
afterEach(() => gateway.close())

const logs = (words: string[], options: CliOptions = {}) =>
  runCli(['logs', ...words], {
    ...options,
    env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' },
    io: { clock, ...options.io },
  })
const queries = () =>
  gateway.requests.map(({ path }) => Object.fromEntries(new URL(path, gateway.url).searchParams.entries()))

describe('logs list', () => {
  test('shows time, type, outcome and user', async () => {
    const { stdout } = await logs(['list'], { terminal: { stdout: true }, columns: 160 })
    expect(stdout).toMatch(/ (ago|now) +api_access {2}success {2}Ada {3}External API: answered chat/)
    expect(JSON.parse((await logs(['list', '--json'])).stdout)).toEqual([logOf()])
    expect((await logs(['list', '-o', 'id'])).stdout).toBe('jti-1\n')
  })

  test('passes its filters on, with names made ids and times made ISO', async () => {
    await logs([
      'list',
      '--since',
      '1h',
      '--until',
      '2026-01-01T11:30:00Z',
      '--status',
      '4XX',
      '-m',
      'local/extract',
      '-e',
      'api_access',
    ])
    await logs([
      'list',
      '--key',
      'ABCDEF'.repeat(4),
      '--user',
      'f'.repeat(24),
      '--outcome',
      'denied',
      '--search',
      'x y',
    ])
    expect(queries()).toEqual([
      {
        type: 'api_access',
        status: '4xx',
        model: 'local/extract',
        startDate: '2026-01-01T11:00:00.000Z',
        endDate: '2026-01-01T11:30:00.000Z',
        page: '1',
        limit: '50',
      },
      {
        outcome: 'denied',
        search: 'x y',
        apiKeyId: 'abcdef'.repeat(4),
        userId: 'f'.repeat(24),
        page: '1',
        limit: '50',
      },
    ])
  })

  test('of more than a page ends at the moment it began, so that new entries push nothing from page to page', async () => {
    const page = Array.from({ length: 100 }, (_, at) => logOf({ id: `jti-${at}` }))
    gateway.on(LOGS, logPage(page, 150), logPage(page.slice(0, 50), 150))
    const { stdout } = await logs(['list', '--all', '-o', 'id'])
    expect(stdout.trim().split('\n')).toHaveLength(150)
    expect(queries().map(({ page: at, endDate }) => [at, endDate])).toEqual([
      ['1', '2026-01-01T12:00:00.000Z'],
      ['2', '2026-01-01T12:00:00.000Z'],
    ])
  })

  test.each([
    ['--status', '6xx'],
    ['--status', 'bad'],
    ['--since', 'yesterday'],
    ['--outcome', 'good'],
    ['--since', '1h', '--until', '2h'],
  ])('%s %s is a usage error', async (...words) => {
    expect(await logs(['list', ...words])).toMatchObject({ exitCode: 2, stdout: '' })
    expect(gateway.requests).toEqual([])
  })
})

describe('logs show', () => {
  test('of a bundle id is one entry, of a request id every entry of it, however old', async () => {
    expect(JSON.parse((await logs(['show', 'jti-1', '--json'])).stdout)).toEqual(logOf())
    expect(JSON.parse((await logs(['show', 'req-1', '--json'])).stdout)).toEqual([logOf()])
    expect(queries()).toMatchObject([
      { bundleId: 'jti-1', startDate: '1970-01-01T00:00:00.000Z' },
      { requestId: 'req-1', startDate: '1970-01-01T00:00:00.000Z' },
    ])
  })

  test('lists reason and provider status of each attempt, also of entries without one', async () => {
    const attempts = [
      {
        model: 'openai/gpt-4o',
        status: 'failed',
        reason: 'auth_failed',
        providerStatus: 401,
        providerRequestId: 'req_1',
        providerMessage: 'Incorrect API key provided: …',
        latencyMs: 80,
      },
      { model: 'test/any', status: 'served', providerRequestId: 'req_2', latencyMs: 3 },
    ]
    gateway.on(LOGS, logPage([logOf({ metadata: { ...logOf().metadata, attempts } })]))
    const terminal = { terminal: { stdout: true }, columns: 200 }
    const { stdout } = await logs(['show', 'jti-1'], terminal)
    expect(stdout).toContain(
      `ATTEMPTS     openai/gpt-4o failed: auth_failed, HTTP 401, provider's id req_1, 80 ms, ` +
        `provider's message: "Incorrect API key provided: …"; test/any served: provider's id req_2, 3 ms`,
    )
    expect(JSON.parse((await logs(['show', 'jti-1', '--json'])).stdout).metadata.attempts).toEqual(attempts)
    expect((await logs(['show', 'req-1'], terminal)).stdout).toContain('auth_failed, HTTP 401')
    gateway.on(LOGS, logPage([logOf()]))
    expect((await logs(['show', 'jti-1'], terminal)).stdout).toMatch(/^ATTEMPTS +(-|)$/m)
  })

  test('of an unknown request exits 3', async () => {
    gateway.on(LOGS, logPage([]))
    expect(await logs(['show', 'req-9'])).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining("the log has no entry of 'req-9'"),
    })
  })
})

describe('logs tail', () => {
  /** What the gateway has logged; the test adds to it. */
  let logged: { id: string; timestamp: string }[]
  const add = (id: string, atMs: number) => logged.push(logOf({ id, timestamp: new Date(atMs).toISOString() }))
  /** Answers as the gateway does, a few entries a page; its positions are numbers of entries. */
  const served: Script = (request, response) => {
    const query = new URL(request.path, gateway.url).searchParams
    const after = query.get('after')
    if (after !== null) {
      const from = after === 'now' ? logged.length : Number(after)
      const logs = logged.slice(from, from + Number(query.get('limit')))
      return json(200, { success: true, data: { logs, position: String(from + logs.length) } })(request, response)
    }
    const found = [...logged].sort((one, other) => other.timestamp.localeCompare(one.timestamp))
    const page = Number(query.get('page'))
    const pagination = { page, limit: 3, total: found.length, pages: Math.ceil(found.length / 3) }
    return json(200, { success: true, data: { logs: found.slice(3 * page - 3, 3 * page), pagination } })(
      request,
      response,
    )
  }
  const down: Script = (_, response) => void response.destroy()

  beforeEach(() => {
    logged = []
    gateway.on(LOGS, served)
  })

  function tail(words: string[] = []) {
    const stdout = captured()
    const abort = new AbortController()
    const ended = logs(['tail', '-o', 'id', '--retries', '0', ...words], {
      io: { stdout: stdout.stream, signal: abort.signal },
    }).then((result) => ({ ...result, stdout: stdout.text() }))
    const said = async (text: string) => {
      while (stdout.text() !== text) {
        await Promise.race([
          once(stdout.stream, 'drained'),
          ended.then(({ stderr }) => Promise.reject(new Error(`ended after "${stdout.text()}": ${stderr}`))),
        ])
      }
    }
    return { ended, said, abort, text: stdout.text }
  }
  /** Resolves once the command waits so long. */
  const waits = async (ms: number) => {
    while (!clock.dueIn(ms)) await new Promise(setImmediate)
  }
  /** Lets a time pass that the command waits for, once it does and `before` was done. */
  const pass = async (ms: number, before: () => unknown = () => {}) => {
    await waits(ms)
    before()
    clock.advance(ms)
  }

  test('shows the last lines, the oldest of them first, then each new entry once', async () => {
    for (let at = 0; at < 8; at++) add(`old-${at}`, START_MS + at * 1000)
    const { said, ended } = tail(['-n', '2', '--limit', '5'])
    await said('old-6\nold-7\n')
    await pass(5_000, () => add('new-1', START_MS + 9_000))
    await said('old-6\nold-7\nnew-1\n')
    await pass(5_000, () => [add('new-2', START_MS + 9_000), add('new-3', START_MS + 10_000)])
    expect(await ended).toMatchObject({ exitCode: 0, stdout: 'old-6\nold-7\nnew-1\nnew-2\nnew-3\n' })
  })

  test('an entry that comes into the log later than one with a later time is not missed, however much later', async () => {
    add('one', START_MS)
    const { said, ended } = tail(['--limit', '3'])
    await said('one\n')
    await pass(5_000, () => add('three', START_MS + 5_000))
    await said('one\nthree\n')
    await pass(5_000, () => add('two', START_MS - 3_600_000))
    expect((await ended).stdout).toBe('one\nthree\ntwo\n')
  })

  test('requests the next page at once after a full page, with the same filters', async () => {
    const { ended } = tail(['-n', '0', '--limit', '250', '--status', '5xx'])
    await pass(5_000, () => {
      for (let at = 0; at < 250; at++) add(`new-${at}`, START_MS)
    })
    expect((await ended).stdout.trimEnd().split('\n')).toEqual(Array.from({ length: 250 }, (_, at) => `new-${at}`))
    expect(queries().map(({ after, status }) => [after, status])).toEqual(
      ['now', '0', '100', '200'].map((after) => [after, '5xx']),
    )
  })

  test('an entry that comes between the position and the last lines is shown once', async () => {
    add('one', START_MS)
    const { said, ended } = tail(['--limit', '3'])
    gateway.on(LOGS, served, (request, response) => {
      add('two', START_MS + 1_000)
      gateway.on(LOGS, served)
      return served(request, response)
    })
    await said('one\ntwo\n')
    await pass(5_000, () => add('three', START_MS + 2_000))
    expect((await ended).stdout).toBe('one\ntwo\nthree\n')
  })

  test('an empty log is waited for, wherever the clocks of both machines are', async () => {
    const { ended } = tail(['--limit', '1'])
    await pass(5_000)
    await pass(5_000, () => add('first', START_MS - 3_600_000))
    expect((await ended).stdout).toBe('first\n')
  })

  test('waits for a restarting gateway, and shows every entry of that time once', async () => {
    add('before', START_MS)
    const { said, ended } = tail(['--limit', '2'])
    await said('before\n')
    await pass(5_000, () => gateway.on(LOGS, down))
    await pass(10_000, () => add('meanwhile', START_MS + 3_000))
    await pass(20_000, () => gateway.on(LOGS, served))
    const { stdout, stderr } = await ended
    expect(stdout).toBe('before\nmeanwhile\n')
    expect(stderr).toContain('note: the gateway does not answer; retrying in 10 s')
  })

  test('ends with 130 at Ctrl-C, and with the meaning of a refusal when the key is not accepted any more', async () => {
    add('one', START_MS)
    const stopped = tail()
    await stopped.said('one\n')
    const { Interrupted } = await import('../../../src/cli/errors.ts')
    stopped.abort.abort(new Interrupted('SIGINT'))
    expect(await stopped.ended).toMatchObject({ exitCode: 130, stderr: '' })

    const refused = tail()
    await refused.said('one\n')
    await pass(5_000, () => gateway.on(LOGS, flatError(401, 'Invalid API key', 'The key was revoked.')))
    expect((await refused.ended).exitCode).toBe(4)
  })

  test('at a limit per hour or day it names the limit, and continues afterwards', async () => {
    add('one', START_MS)
    const { said, ended } = tail(['--limit', '2'])
    await said('one\n')
    const message = 'This key may make 100 requests per day; try again after 2026-01-02T00:00:00.000Z.'
    const refused = structuredError(429, 'RATE_LIMIT_EXCEEDED', message)
    const limited: Script = (request, response) => {
      response.setHeader('retry-after', '43195')
      return refused(request, response)
    }
    await pass(5_000, () => gateway.on(LOGS, limited))
    await pass(43_195_000, () => {
      gateway.on(LOGS, served)
      add('two', START_MS + 9_000)
    })
    const { stdout, stderr } = await ended
    expect(stdout).toBe('one\ntwo\n')
    expect(stderr).toContain(`note: ${message} (RATE_LIMIT_EXCEEDED); continuing at 2026-01-02T00:00:00.000Z\n`)
  })

  test('ends at once when the first question fails', async () => {
    gateway.on(LOGS, down)
    expect((await tail().ended).exitCode).toBe(9)
  })

  test('prints lines for people, and values for programs', async () => {
    add('one', START_MS)
    const line = await logs(['tail', '--limit', '1'])
    expect(line.stdout).toBe(
      '2026-01-01T12:00:00.000Z  api_access  success  Ada  External API: answered chat with "local/extract"\n',
    )
    expect(JSON.parse((await logs(['tail', '--limit', '1', '-o', 'ndjson'])).stdout)).toMatchObject({ id: 'one' })
    expect(await logs(['tail', '-o', 'yaml'])).toMatchObject({ exitCode: 2 })
    expect(await logs(['tail', '--lines', '-1'])).toMatchObject({ exitCode: 2 })
  })
})
