import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createFakeClock } from '../../fake-clock.ts'
import {
  answer,
  type FakeGateway,
  flatError,
  groupNamed,
  incidentOf,
  indexNamed,
  json,
  KEY,
  listOf,
  logOf,
  logPage,
  MATCH,
  policyNamed,
  roleNamed,
  type Script,
  searchResult,
  shieldExplanation,
  shieldScan,
  startFakeGateway,
  trainResult,
  WHOAMI,
} from '../fake-gateway.ts'
import { type CliOptions, captured, runCli } from '../run-cli.ts'

const CHAT = 'POST /api/external/chat/completions'
const SEARCH = 'GET /api/external/indexes/handbook/search'

let gateway: FakeGateway
let folder: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

const TERMINAL = { stdin: true, stdout: true, stderr: true }
const aigw = (words: string[], options: CliOptions = {}) =>
  runCli(words, {
    terminal: TERMINAL,
    ...options,
    env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1', CI: '1', ...options.env },
  })

describe('text of others on a terminal', () => {
  // Retitles the window, clears the screen, answers back, and hides; without all that it reads `safe`.
  const HOSTILE = 's\x1b]0;owned\x07a\x9b2Jf\x00\x1bP+q544e\x1b\\\x7fe'
  const indexes = [indexNamed('handbook', HOSTILE)]
  const document = { name: HOSTILE, status: 'indexed', chunks: 1, error: HOSTILE }
  const page: Script = (_, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end(HOSTILE)

  const COMMANDS: Record<string, { words: string[]; route: string; script: Script; field: string }> = {
    'groups list': {
      words: ['groups', 'list'],
      route: 'GET /api/external/groups',
      script: listOf('groups', [groupNamed('x', { description: HOSTILE })]),
      field: 'description',
    },
    'groups show': {
      words: ['groups', 'show', '3'.repeat(24)],
      route: `GET /api/external/groups/${'3'.repeat(24)}`,
      script: json(200, { success: true, group: groupNamed('x', { users: [{ id: '1', name: 'x', email: HOSTILE }] }) }),
      field: 'users.0.email',
    },
    'roles create': {
      words: ['roles', 'create', 'x', '--display-name', 'x', '-d', 'x'],
      route: 'POST /api/external/roles',
      script: json(201, { success: true, role: roleNamed('x', { displayName: HOSTILE }) }),
      field: 'displayName',
    },
    'policies list': {
      words: ['policies', 'list'],
      route: 'GET /api/external/smltp-policies/all',
      script: json(200, {
        success: true,
        data: { builtInPolicies: [], customPolicies: [policyNamed('x', { description: HOSTILE })] },
      }),
      field: 'description',
    },
    'policies show': {
      words: ['policies', 'show', 'x'],
      route: 'GET /api/external/smltp-policies/x',
      script: json(200, { success: true, policy: policyNamed('x', { policy: { deniedModels: [HOSTILE] } }) }),
      field: 'policy.deniedModels.0',
    },
    'shield check': {
      words: ['shield', 'check', 'README.md'],
      route: 'POST /api/external/prompt-shield/scan',
      script: json(200, shieldScan({ details: [{ layer: 'regex', pattern: HOSTILE, matched: HOSTILE }] })),
      field: 'details.0.matched',
    },
    'shield explain': {
      words: ['shield', 'explain', 'hi'],
      route: 'POST /api/external/prompt-shield/scan',
      script: json(200, shieldScan({ explanation: shieldExplanation(HOSTILE) })),
      field: 'explanation.pieces.0.findings.0.matched',
    },
    'incidents list': {
      words: ['incidents', 'list'],
      route: 'GET /api/admin/incidents',
      script: listOf('incidents', [incidentOf({ types: { [HOSTILE]: 1 }, ruleName: HOSTILE })]),
      field: 'ruleName',
    },
    'logs list': {
      words: ['logs', 'list'],
      route: 'GET /api/external/activity-logs',
      script: logPage([logOf({ description: HOSTILE })]),
      field: 'description',
    },
    'logs show': {
      words: ['logs', 'show', 'jti-1'],
      route: 'GET /api/external/activity-logs',
      script: logPage([logOf({ description: HOSTILE })]),
      field: 'description',
    },
    'receipts show': {
      words: ['receipts', 'show', 'jti-1'],
      route: 'GET /api/external/receipts/jti-1',
      script: json(200, { success: true, receipt: { bundle_id: 'jti-1', requested_model: HOSTILE } }),
      field: 'requested_model',
    },
    'indexes list': {
      words: ['indexes', 'list'],
      route: 'GET /api/external/indexes/all',
      script: json(200, { success: true, indexes, pagination: { page: 1, limit: 50, total: 1, pages: 1 } }),
      field: 'description',
    },
    'indexes create': {
      words: ['indexes', 'create', 'handbook'],
      route: 'POST /api/external/indexes',
      script: json(201, { success: true, message: '', index: indexes[0] }),
      field: 'description',
    },
    'indexes add': {
      words: ['indexes', 'add', 'handbook', 'README.md'],
      route: 'POST /api/external/indexes/handbook/train',
      script: json(200, trainResult([document])),
      field: 'name',
    },
    'indexes search': {
      words: ['indexes', 'search', 'handbook', 'x'],
      route: SEARCH,
      script: json(200, searchResult([{ ...MATCH, content: HOSTILE }])),
      field: 'content',
    },
    whoami: {
      words: ['whoami'],
      route: 'GET /api/external/whoami',
      script: json(200, { ...WHOAMI, user: { ...WHOAMI.user, name: HOSTILE } }),
      field: 'user.name',
    },
    chat: {
      words: ['chat', '--no-stdin', '-m', 'a/b', 'hi'],
      route: CHAT,
      script: answer(HOSTILE),
      field: 'choices.0.message.content',
    },
    api: { words: ['api', 'GET', 'x'], route: 'GET /api/external/x', script: json(200, { x: HOSTILE }), field: 'x' },
  }
  const FORMATS = ['table', 'json', 'ndjson', 'yaml', 'tsv']

  describe.each(Object.entries(COMMANDS))('%s', (_, { words, route, script, field }) => {
    beforeEach(() => gateway.on(route, script))

    test.each([...FORMATS.map((format) => ['-o', format]), ['--field', field]])(
      'is harmless with %s %s',
      async (...flags) => {
        const { exitCode, stdout, stderr } = await aigw([...words, ...flags])
        expect({ exitCode, stderr: stderr.replace(/^handbook: .*\n/, '') }).toEqual({ exitCode: 0, stderr: '' })
        expect(stdout).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/)
        // JSON and YAML keep the value by escaping it; every other format drops what is harmful.
        if (/json|yaml/.test(flags.join())) expect(stdout).toMatch(/\\(u001b|e)\]0;owned/)
        else expect(stdout).toMatch(/saf\\?e/)
      },
    )

    test('is exact in a pipe', async () => {
      const { stdout } = await aigw([...words, '--field', field], { terminal: {} })
      expect(stdout).toBe(`${HOSTILE}\n`)
    })
  })

  test.each([200, 404])('is harmless in a page that is no JSON, also with status %i', async (status) => {
    gateway.on('GET /api/external/x', (request, response) => {
      response.statusCode = status
      return status === 200 ? page(request, response) : void response.end(HOSTILE)
    })
    expect((await aigw(['api', 'GET', 'x'])).stdout).toBe('safe')
    expect((await aigw(['api', 'GET', 'x'], { terminal: {} })).stdout).toBe(HOSTILE)
  })

  test('is harmless in errors, notes and traces', async () => {
    gateway.on(CHAT, flatError(403, HOSTILE, HOSTILE))
    const refused = await aigw(['chat', '--no-stdin', '-m', 'a/b', 'hi', '--debug'])
    expect(refused.stderr).toContain('error: safe (safe)')
    await writeFile(join(folder, 'a\x1b[2Jb.jpg'), 'x')
    const skipped = await aigw(['indexes', 'add', 'handbook', folder])
    expect(skipped.stderr).toContain('ab.jpg: unsupported file type')
    for (const { stderr } of [refused, skipped]) expect(stderr).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/)
  })
})

describe('a table that is longer than the terminal', () => {
  const long = (pager: string, words: string[] = []) =>
    aigw(['indexes', 'list', ...words], { rows: 2, env: { AIGW_PAGER: pager } })

  test('is shown by the pager that was asked for', async () => {
    const path = join(folder, 'paged')
    const result = await long(`cat > ${path}`)
    expect(result).toEqual({ exitCode: 0, stdout: '', stderr: '' })
    expect(await readFile(path, 'utf8')).toMatch(/^NAME .*\nhandbook .*\nfaq .*\n$/)
  })

  test('leaving the pager early is not a failure', async () => {
    expect((await long('true')).exitCode).toBe(0)
  })

  test('is shown directly if the pager does not exist', async () => {
    const { exitCode, stdout } = await long('no-such-pager 2> /dev/null')
    expect(exitCode).toBe(0)
    expect(stdout).toContain('handbook')
  })

  test('is not paged with --no-pager, nor when it fits', async () => {
    expect((await long('false', ['--no-pager'])).stdout).toContain('handbook')
    const fits = await aigw(['indexes', 'list'], { rows: 24, env: { AIGW_PAGER: 'false' } })
    expect(fits.stdout).toContain('handbook')
  })
})

describe('while nothing happens', () => {
  const ASK = ['chat', '--no-stdin', '-m', 'local/extract', 'hi']

  /** Runs a command whose answer comes only when 300 ms are over and something was shown on stderr. */
  async function slow(words: string[], route: string, then: Script) {
    const clock = createFakeClock()
    const stderr = captured({ isTTY: true })
    gateway.on(route, async (request, response) => {
      const shown = once(stderr.stream, 'drained')
      clock.advance(300)
      await shown
      await then(request, response)
    })
    const result = await aigw(words, { env: { CI: '' }, io: { clock, stderr: stderr.stream } })
    return { ...result, stderr: stderr.text() }
  }

  test('a terminal shows progress on stderr, and stdout has only the answer', async () => {
    const asked = await slow(ASK, CHAT, answer('28 days.'))
    expect(asked).toMatchObject({ exitCode: 0, stdout: '28 days.\n' })
    expect(asked.stderr).toContain('Waiting for local/extract')
    // The cursor is shown again once, before the first text, and left alone from then on.
    expect(asked.stderr.split('\x1b[?25h')).toHaveLength(2)
    const search = await slow(['indexes', 'search', 'handbook', 'x'], SEARCH, json(200, searchResult([MATCH])))
    expect(search.stderr).toContain('Searching handbook')
    const health = await slow(['health', '--wait', '30s'], 'GET /api/external/health', json(200, { status: 'healthy' }))
    expect(health.stderr).toContain(`Waiting for ${gateway.url}`)
    const train = 'POST /api/external/indexes/handbook/train'
    const added = await slow(['indexes', 'add', 'handbook', 'README.md'], train, json(200, trainResult([])))
    expect(added.stderr).toContain('Adding 1 of 1 documents to handbook')
  })

  test.each([
    ['with -q', ['-q'], {}],
    ['with -o json', ['-o', 'json'], {}],
    ['in CI', [], { CI: '1' }],
  ])('nothing is shown %s', async (_, flags, env) => {
    const clock = createFakeClock()
    gateway.on(CHAT, async (request, response) => {
      clock.advance(1_000)
      await answer('28 days.')(request, response)
    })
    expect((await aigw([...ASK, ...flags], { env: { CI: '', ...env }, io: { clock } })).stderr).toBe('')
  })

  test('no progress is shown for a fast response, nor in a pipe', async () => {
    const clock = createFakeClock()
    expect((await aigw(ASK, { env: { CI: '' }, io: { clock } })).stderr).toBe('')
    expect(clock.pending).toBe(0)
    gateway.on(CHAT, async (request, response) => {
      clock.advance(1_000)
      await answer('28 days.')(request, response)
    })
    expect((await aigw(ASK, { terminal: {}, env: { CI: '' }, io: { clock } })).stderr).toBe('')
  })
})
