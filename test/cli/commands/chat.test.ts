import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Interrupted } from '../../../src/cli/errors.ts'
import { createFakeClock } from '../../fake-clock.ts'
import {
  answer,
  chunkFrame,
  ERROR_FRAME,
  envelope,
  type FakeGateway,
  flatError,
  json,
  KEY,
  METADATA,
  metadataFrame,
  startFakeGateway,
  stream,
  toEvents,
  USAGE_FRAME,
} from '../fake-gateway.ts'
import { type CliOptions, captured, runCli } from '../run-cli.ts'

const ROUTE = 'POST /api/external/chat/completions'

let gateway: FakeGateway
beforeEach(async () => {
  gateway = await startFakeGateway()
})
afterEach(() => gateway.close())

const chat = (words: string[], options: CliOptions = {}) =>
  runCli(['chat', '-m', 'local/extract', '--no-stdin', ...words], {
    ...options,
    env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, ...options.env },
  })

describe('aigw chat', () => {
  test('streams the text of the answer and one newline, and nothing else, to stdout', async () => {
    const result = await chat(['How many?'])
    expect(result).toEqual({ exitCode: 0, stdout: 'You have 28 days.\n', stderr: '' })
    const [request] = gateway.requests
    expect(request?.json).toEqual({
      prompt: 'How many?',
      model: 'local/extract',
      index: 'Zero-Knowledge',
      stream: true,
    })
    expect(request?.headers.authorization).toBe(`Bearer ${KEY}`)
    expect(request?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('gives a pipe the exact text of the model and a terminal a harmless one', async () => {
    const hostile = 'a\x1b]0;owned\x07b\x9b2J'
    const halves = [chunkFrame(hostile.slice(0, 5)), chunkFrame(hostile.slice(5), 'stop')]
    gateway.on(ROUTE, stream(toEvents([metadataFrame(), ...halves, USAGE_FRAME])))
    expect((await chat(['hi'])).stdout).toBe(`${hostile}\n`)
    expect((await chat(['hi'], { terminal: { stdout: true } })).stdout).toBe('ab\n')
  })

  test('exits 8 after an error frame, and reports that the text is incomplete', async () => {
    gateway.on(ROUTE, stream(toEvents([metadataFrame(), chunkFrame('You have'), ERROR_FRAME], { done: false })))
    const { exitCode, stdout, stderr } = await chat(['hi'])
    expect({ exitCode, stdout }).toEqual({ exitCode: 8, stdout: 'You have' })
    expect(stderr).toContain('error: the provider hung up (PROVIDER_INTERRUPTED)')
    expect(stderr).toContain('only a part')
    expect(stderr).toContain('req-9')
  })

  test.each([
    ['text', []],
    ['frames', ['-o', 'ndjson']],
  ])('exits 8 when the stream just ends, shown as %s', async (_, flags) => {
    gateway.on(ROUTE, stream(toEvents([metadataFrame(), chunkFrame('You have', 'stop'), USAGE_FRAME], { done: false })))
    expect((await chat(['hi', ...flags])).exitCode).toBe(8)
  })

  test('-o json prints the whole envelope and asks for no stream', async () => {
    const { stdout } = await chat(['hi', '-o', 'json'])
    expect(JSON.parse(stdout)).toEqual(envelope('You have 28 days.'))
    expect(gateway.requests[0]?.json).toMatchObject({ stream: false })
  })

  test('--field prints one value of it, --raw its bytes', async () => {
    expect((await chat(['hi', '--field', 'metadata.served_model'])).stdout).toBe('local/extract\n')
    expect((await chat(['hi', '--raw'])).stdout).toBe(JSON.stringify(envelope('You have 28 days.')))
  })

  test('-o ndjson prints the frames as they were sent, one on a line', async () => {
    const frames = [metadataFrame(), chunkFrame('Hi', 'stop'), USAGE_FRAME]
    gateway.on(ROUTE, stream(toEvents(frames)))
    const { stdout } = await chat(['hi', '-o', 'ndjson'])
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual(frames)
  })

  test('--no-stream waits for the whole answer and prints the same text', async () => {
    expect((await chat(['hi', '--no-stream'])).stdout).toBe('You have 28 days.\n')
    expect(gateway.requests[0]?.json).toMatchObject({ stream: false })
  })

  test('prints no second list of sources after the answer of the built-in model, which contains one', async () => {
    const answer = '"28 days." [1]\n\nSources:\n[1] leave.md'
    gateway.on(ROUTE, stream(toEvents([metadataFrame(METADATA), chunkFrame(answer, 'stop'), USAGE_FRAME])))
    expect(await chat(['hi', '--sources'])).toMatchObject({ stdout: `${answer}\n`, stderr: '' })
    const other = { ...METADATA, served_model: 'openai/gpt-4o' }
    gateway.on(ROUTE, stream(toEvents([metadataFrame(other), chunkFrame('28 days.', 'stop'), USAGE_FRAME])))
    expect(await chat(['hi', '--sources'])).toMatchObject({
      stdout: '28 days.\n',
      stderr: 'Sources: leave.md (0.91)\n',
    })
  })

  test('shows failover, sources and usage on stderr, and nothing of it with -q', async () => {
    const failover = {
      occurred: true,
      attempts: [
        { model: 'a/slow', status: 'failed', reason: 'timeout', latency_ms: 8_000 },
        { model: 'local/extract', status: 'served', latency_ms: 300 },
      ],
    }
    gateway.on(
      ROUTE,
      stream(toEvents([metadataFrame({ ...METADATA, failover }), chunkFrame('Hi', 'length'), USAGE_FRAME])),
    )
    const { stdout, stderr } = await chat(['hi', '-u', '--sources'])
    expect(stdout).toBe('Hi\n')
    expect(stderr).toContain('! a/slow timed out after 8.0s, continuing with local/extract\n')
    expect(stderr).toContain('Sources: leave.md (0.91)\n')
    expect(stderr).toMatch(/^local\/extract {2}412 in \/ 38 out {2}first token .*conv-1$/m)
    expect(stderr).toContain('truncated at the token limit')
    expect((await chat(['hi', '-u', '--sources', '-q'])).stderr).toBe('')
  })

  test('says which fields were changed or dropped, on stderr', async () => {
    const notices = {
      changed: [
        { field: 'max_tokens', asked: 9000, used: 4000, why: 'gateway' },
        { field: 'max_tokens', asked: null, used: 500, why: 'key' },
        { field: 'reasoning_effort', asked: 'high', used: null, why: 'operator' },
      ],
      dropped: [{ field: 'top_p', why: 'gateway' }],
    }
    const lines = [
      'note: --max-tokens was changed from 9000 to 4000 (limit of the endpoint)',
      'note: --max-tokens was set to 500 (limit of this key)',
      'note: reasoning_effort was changed from high to none (limit of the gateway)',
      'note: top_p had no effect (the endpoint does not support it)',
    ]
    gateway.on(
      ROUTE,
      stream(toEvents([metadataFrame({ ...METADATA, ...notices }), chunkFrame('Hi', 'stop'), USAGE_FRAME])),
    )
    const streamed = await chat(['hi'])
    expect(streamed).toMatchObject({ exitCode: 0, stdout: 'Hi\n' })
    expect(streamed.stderr.trimEnd().split('\n')).toEqual(lines)
    expect((await chat(['hi', '-q'])).stderr).toBe('')
  })

  test.each([
    [400, 'Invalid messages', 2],
    [401, 'Invalid API key', 4],
    [403, 'Access denied', 5],
    [404, 'Index not found', 3],
    [422, 'Idempotency key reused', 2],
    [429, 'Rate limit exceeded', 7],
    [429, 'All model attempts failed', 7],
    [502, 'All model attempts failed', 8],
    [500, 'Internal server error', 1],
  ])('a %i %s exits %i and shows the message and the request', async (status, label, exitCode) => {
    gateway.on(ROUTE, flatError(status, label, 'What went wrong.', { reset_time: '2026-01-01T00:00:00.000Z' }))
    const result = await chat(['hi', '--retries', '0'])
    expect(result).toMatchObject({ exitCode, stdout: '' })
    expect(result.stderr).toContain(`error: What went wrong. (${label})`)
    expect(result.stderr).toContain('req-fake')
  })

  test('names every attempt of a chain that failed', async () => {
    const attempts = [{ model: 'a/b', status: 'failed', reason: 'timeout', latency_ms: 900 }]
    gateway.on(ROUTE, flatError(502, 'All model attempts failed', 'Nobody answered.', { attempts }))
    const { stderr } = await chat(['hi'])
    expect(stderr).toContain('a/b:  timeout after 900 ms')
    expect(stderr).toContain('aigw logs show req-fake')
  })

  test.each([
    [400, 'Provider rejected the request', true],
    [400, 'Invalid messages', false],
  ])('a %i %s names the command that shows the details: %s', async (status, label, names) => {
    gateway.on(ROUTE, flatError(status, label, 'What went wrong.'))
    expect((await chat(['hi'])).stderr.includes('aigw logs show req-fake')).toBe(names)
  })

  test.each([
    ['auth_failed', "rejected the gateway's key", "check the key of 'a' in the gateway's configuration"],
    ['model_not_found', 'is not known to its provider', "check the name 'a/b', and the base_url of 'a'"],
    ['quota_exhausted', 'has no quota left', "check credit and limits of the account behind 'a'"],
  ])('advises about %s, and does not retry', async (reason, words, advice) => {
    const failed = { model: 'a/b', status: 'failed', reason, latency_ms: 900 }
    gateway.on(ROUTE, flatError(502, 'All model attempts failed', 'No model answered.', { attempts: [failed, failed] }))
    const { stderr } = await chat(['hi', '--retries', '1'])
    expect(stderr).toContain(`a/b:  ${reason} after 900 ms`)
    expect(stderr.split(advice)).toHaveLength(2)
    expect(gateway.requests).toHaveLength(1)

    const failover = {
      occurred: true,
      attempts: [failed, { model: 'local/extract', status: 'served', latency_ms: 1 }],
    }
    gateway.on(
      ROUTE,
      stream(toEvents([metadataFrame({ ...METADATA, failover }), chunkFrame('Hi', 'stop'), USAGE_FRAME])),
    )
    expect((await chat(['hi'])).stderr).toContain(`! a/b ${words} after 0.9s, continuing with local/extract\n`)
  })

  test('with -o json a failure is one JSON line on stderr', async () => {
    gateway.on(ROUTE, flatError(429, 'Rate limit exceeded', 'Slow down.', { reset_time: '2026-01-01T00:00:00.000Z' }))
    const { stderr } = await chat(['hi', '-o', 'json', '--retries', '0'])
    expect(JSON.parse(stderr)).toEqual({
      code: 'RATE_LIMIT_EXCEEDED',
      message: 'Slow down. (Rate limit exceeded)',
      http_status: 429,
      request_id: 'req-fake',
      exit_code: 7,
      retryable: true,
      hint: 'Try again after 2026-01-01T00:00:00.000Z.',
    })
  })

  test('a connection that breaks before the answer is tried again under the same idempotency key', async () => {
    gateway.on(
      ROUTE,
      (_, response) => void response.destroy(),
      stream(toEvents([metadataFrame(), chunkFrame('Hi', 'stop'), USAGE_FRAME])),
    )
    expect(await chat(['hi'])).toMatchObject({ exitCode: 0, stdout: 'Hi\n' })
    const keys = gateway.requests.map(({ headers }) => headers['idempotency-key'])
    expect(keys).toHaveLength(2)
    expect(new Set(keys).size).toBe(1)
  })

  test('--dry-run prints the request and sends nothing', async () => {
    const { exitCode, stdout } = await chat(['hi', '--dry-run', '--json', '--idempotency-key', 'mine'])
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      method: 'POST',
      url: `${gateway.url}/api/external/chat/completions`,
      headers: { authorization: 'Bearer ***', 'idempotency-key': 'mine' },
      body: { prompt: 'hi' },
    })
    expect(stdout).not.toContain(KEY)
    expect(gateway.requests).toEqual([])
  })

  test('--debug shows the exchange and never the key', async () => {
    gateway.on(ROUTE, json(200, { ...envelope('The key is sk-0123456789abcdef.') }))
    const { stderr } = await chat(['hi', '--no-stream', '--debug'])
    expect(stderr).toContain('> authorization: Bearer sk-***')
    expect(stderr).toContain('< 200 req-fake')
    expect(stderr).not.toContain(KEY)
    expect(stderr).not.toContain('sk-0123456789abcdef')
  })

  test('--shield takes its policy only behind an equals sign, so it never swallows the prompt', async () => {
    await chat(['--shield', 'hi'])
    await chat(['--shield=strict', 'hi'])
    await chat(['--no-shield', 'hi'])
    expect(gateway.requests.map(({ json: body }) => body)).toMatchObject([
      { prompt: 'hi', prompt_shield: { enabled: true } },
      { prompt: 'hi', prompt_shield: { enabled: true, policy: 'strict' } },
      { prompt: 'hi', prompt_shield: { enabled: false } },
    ])
  })

  test('a value that looks like a global flag stays the value of its own flag', async () => {
    await chat(['-s', '-v', 'hi'])
    expect(gateway.requests[0]?.json).toMatchObject({ system_message: '-v' })
  })

  test('without a prompt on a terminal it prints the usage', async () => {
    const { exitCode, stderr } = await chat([], { terminal: { stdin: true } })
    expect(exitCode).toBe(2)
    expect(stderr).toContain('no prompt given and stdout is not a terminal')
  })

  test('--commit complete asks for whole answers only, and waits as long as they may take', async () => {
    const clock = createFakeClock()
    gateway.on(ROUTE, async (request, response) => {
      clock.advance(200_000)
      await answer('A long story.')(request, response)
    })
    const result = await chat(['hi', '--fallback', 'a/b', '--commit', 'complete'], { io: { clock } })
    expect(result).toEqual({ exitCode: 0, stdout: 'A long story.\n', stderr: '' })
    expect(gateway.requests[0]?.json).toMatchObject({ stream: true, redundancy: { commit: 'complete' } })
  })

  test("--commit first-token is the gateway's default, and other values are rejected", async () => {
    await chat(['hi', '--commit', 'first-token', '--on', 'timeout'])
    expect(gateway.requests[0]?.json).toMatchObject({ redundancy: { commit: 'first_token', on: ['timeout'] } })
    const { exitCode, stderr } = await chat(['hi', '--commit', 'never'])
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('first-token, complete')])
  })

  test('--timeout ends a long stream, and the answer counts as incomplete', async () => {
    gateway.on(ROUTE, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(toEvents([metadataFrame(), chunkFrame('You')], { done: false }))
    })
    const clock = createFakeClock()
    const stdout = captured()
    stdout.stream.once('drained', () => clock.advance(5_000))
    const result = await chat(['hi', '--timeout', '5s'], { io: { clock, stdout: stdout.stream } })
    expect({ exitCode: result.exitCode, stdout: stdout.text() }).toEqual({ exitCode: 8, stdout: 'You' })
    expect(result.stderr).toContain('not complete in time')
    expect(clock.pending).toBe(0)
  })

  test.each([
    ['streamed', []],
    ['whole', ['--no-stream']],
  ])('a timeout in the configuration is for ordinary calls and cuts no %s answer', async (_, flags) => {
    const home = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
    await mkdir(join(home, 'aigw'))
    await writeFile(join(home, 'aigw', 'config.yaml'), 'timeout: 2s\n')
    const clock = createFakeClock()
    gateway.on(ROUTE, async (request, response) => {
      clock.advance(59_000)
      await answer('A long story.')(request, response)
    })
    const result = await chat(['hi', ...flags], { io: { clock }, env: { XDG_CONFIG_HOME: home } })
    expect(result).toMatchObject({ exitCode: 0, stdout: 'A long story.\n' })
    await rm(home, { recursive: true })
  })

  test.each([
    ['My Handbook!', 'my-handbook'],
    ['zero-knowledge', 'Zero-Knowledge'],
    ['none', 'Zero-Knowledge'],
  ])('-i %s asks the index %s', async (flag, index) => {
    await chat(['hi', '-i', flag])
    expect(gateway.requests[0]?.json).toMatchObject({ index })
  })

  test.each([
    ['--fields', 'nope'],
    ['--field', 'nope.x'],
  ])('%s with an unknown field is rejected before the request is billed', async (...flags) => {
    const { exitCode, stderr } = await chat(['hi', ...flags])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('Fields:  success, id,')
    expect(gateway.requests).toEqual([])
  })

  test('an index that may not be used is met with the list of those that may', async () => {
    gateway.on(ROUTE, flatError(403, 'Access denied', 'This index does not exist, or this key may not use it.'))
    expect((await chat(['hi', '-i', 'handbok'])).stderr).toContain('aigw indexes list')
  })

  test('--debug shows a streamed answer line by line as it comes, with every key masked', async () => {
    const secret = 'sk-0123456789abcdef'
    const events = toEvents([metadataFrame(), chunkFrame(`The key is ${secret}.`, 'stop'), USAGE_FRAME])
    const cut = events.indexOf(secret) + 6
    const trace = captured()
    gateway.on(ROUTE, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(events.slice(0, cut))
      // The rest follows once the first half was read, so that the border of two chunks cuts the key.
      trace.stream.on('drained', () => {
        if (trace.text().includes('< data: {"type":"metadata"')) response.end(events.slice(cut))
      })
    })
    const { exitCode } = await chat(['hi', '--debug'], { io: { stderr: trace.stream } })
    expect(exitCode).toBe(0)
    const stderr = trace.text()
    expect(stderr).toContain('< data: {"type":"metadata"')
    expect(stderr).toContain('The key is sk-***.')
    expect(stderr).toContain('< data: [DONE]')
    expect(stderr).not.toContain(secret.slice(0, 8))
  })

  test('a gateway that never responds times out after 6 minutes with exit 9', async () => {
    const clock = createFakeClock()
    gateway.on(ROUTE, () => clock.advance(360_000))
    const result = await chat(['hi'], { io: { clock } })
    expect(result.exitCode).toBe(9)
    expect(result.stderr).toContain('within 360 s')
    expect(gateway.requests).toHaveLength(1)
  })

  test('Ctrl-C aborts the request at the gateway and exits 130', async () => {
    const abort = new AbortController()
    const gone = new Promise<void>((resolve) => {
      gateway.on(ROUTE, (_, response) => {
        response.on('close', resolve)
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(toEvents([metadataFrame(), chunkFrame('You')], { done: false }))
        abort.abort(new Interrupted('SIGINT'))
      })
    })
    const result = await chat(['hi'], { io: { signal: abort.signal } })
    await gone
    expect(result.exitCode).toBe(130)
    expect(result.stderr).toBe('')
  })
})

describe('aigw chat -c', () => {
  let state: string
  beforeEach(async () => {
    state = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
  })
  afterEach(() => rm(state, { recursive: true }))
  const kept = (words: string[], env: Record<string, string> = {}) =>
    chat(words, { env: { XDG_STATE_HOME: state, ...env } })
  const path = () => join(state, 'aigw', 'conversation-default.json')
  const lastBody = () => gateway.requests.at(-1)?.json

  test('continues the last conversation: its id, its messages and its system prompt', async () => {
    await kept(['-s', 'Be brief', 'How many?'])
    expect((await stat(path())).mode & 0o777).toBe(0o600)
    expect(await kept(['-c', 'And next year?'])).toMatchObject({ exitCode: 0, stderr: '' })
    expect(lastBody()).toEqual({
      messages: [
        { role: 'user', content: 'How many?' },
        { role: 'assistant', content: 'You have 28 days.' },
        { role: 'user', content: 'And next year?' },
      ],
      ...{ system_message: 'Be brief', conversation_id: 'conv-1' },
      ...{ model: 'local/extract', index: 'Zero-Knowledge', stream: true },
    })
    await kept(['-c', 'Thanks'])
    expect(Object(lastBody()).messages).toHaveLength(5)
  })

  test('without one is a mistake, and so is one that was held with another gateway', async () => {
    expect(await kept(['-c', 'hi'])).toMatchObject({ exitCode: 2 })
    await kept(['hi'])
    const other = await kept(['-c', 'hi'], { AIGW_BASE_URL: 'http://127.0.0.1:9' })
    expect(other).toMatchObject({ exitCode: 2 })
    expect(other.stderr).toContain('is not sent to http://127.0.0.1:9')
  })

  test('is not changed by an answer that broke off, nor kept with AIGW_NO_HISTORY', async () => {
    await kept(['hi'])
    const before = await readFile(path(), 'utf8')
    await kept(['more'], { AIGW_NO_HISTORY: '1' })
    gateway.on(ROUTE, stream(toEvents([metadataFrame(), chunkFrame('You')], { done: false })))
    await kept(['and more'])
    expect(await readFile(path(), 'utf8')).toBe(before)
  })

  test('with a truncated conversation file is a usage error, not a crash', async () => {
    await kept(['hi'])
    await writeFile(path(), '{"id":"conv')
    expect((await kept(['-c', 'hi'])).stderr).toContain('has no conversation to continue')
  })

  test('a conversation that cannot be stored is not a failure', async () => {
    await writeFile(join(state, 'aigw'), 'in the way')
    expect(await kept(['hi'])).toEqual({ exitCode: 0, stdout: 'You have 28 days.\n', stderr: '' })
    expect((await kept(['-v', 'hi'])).stderr).toContain('note: the conversation was not stored')
  })

  test('--conversation sends an id and no earlier message, and excludes -c', async () => {
    await kept(['hi'])
    await kept(['--conversation', 'mine', 'hi'])
    expect(lastBody()).toMatchObject({ prompt: 'hi', conversation_id: 'mine' })
    expect((await kept(['-c', '--conversation', 'mine', 'hi'])).exitCode).toBe(2)
  })
})

describe('aigw chat -x', () => {
  const text = 'Here:\n```sh\nls\n```\nor\n```sh\nls -l\n```\n'

  test('prints one code block and nothing else', async () => {
    gateway.on(ROUTE, answer(text))
    expect(await chat(['-x', 'hi'])).toEqual({ exitCode: 0, stdout: 'ls\n', stderr: '' })
    expect((await chat(['--extract-last', 'hi'])).stdout).toBe('ls -l\n')
    expect((await chat(['-x', '--extract-last', 'hi'])).exitCode).toBe(2)
    expect((await chat(['-x', '-o', 'json', 'hi'])).exitCode).toBe(2)
  })

  test.each([
    ['none', 'No code here.'],
    ['half of one', '```sh\nrm -rf /tmp/'],
  ])('exits 1 for an answer with %s, which is shown on stderr', async (_, content) => {
    gateway.on(ROUTE, answer(content))
    const { exitCode, stdout, stderr } = await chat(['-x', 'hi'])
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toContain(`${content}\nerror: the answer contains no complete code block`)
  })

  test('prints no code of a truncated answer', async () => {
    gateway.on(ROUTE, stream(toEvents([metadataFrame(), chunkFrame(text)], { done: false })))
    expect(await chat(['-x', 'hi'])).toMatchObject({ exitCode: 8, stdout: '' })
  })

  test('gives a terminal a harmless block', async () => {
    gateway.on(ROUTE, answer('```\na\x1b]0;x\x07b\n```\n'))
    expect((await chat(['-x', 'hi'], { terminal: { stdout: true } })).stdout).toBe('ab\n')
    expect((await chat(['-x', 'hi'])).stdout).toBe('a\x1b]0;x\x07b\n')
  })
})

describe('aigw chat --render', () => {
  const text = '# Title\nSome **bold** words.'
  const terminal = { stdout: true, stderr: true }
  beforeEach(() => gateway.on(ROUTE, answer(text)))

  test('renders for a terminal that may be coloured, and leaves it to the reader everywhere else', async () => {
    const rendered = '\x1b[4m\x1b[1mTitle\x1b[22m\x1b[24m\n\nSome \x1b[1mbold\x1b[22m words.\n'
    expect((await chat(['hi'], { terminal })).stdout).toBe(rendered)
    expect((await chat(['hi', '--no-stream'], { terminal })).stdout).toBe(rendered)
    expect((await chat(['hi'], { terminal, env: { NO_COLOR: '1' } })).stdout).toBe(`${text}\n`)
    expect((await chat(['hi'])).stdout).toBe(`${text}\n`)
  })

  test('takes always and never', async () => {
    expect((await chat(['hi', '--render', 'never'], { terminal })).stdout).toBe(`${text}\n`)
    expect((await chat(['hi', '--render', 'always'])).stdout).toBe('Title\n\nSome bold words.\n')
    expect((await chat(['hi', '--render', 'x'])).exitCode).toBe(2)
  })
})

describe('an answer that breaks off', () => {
  const broken = (text: string) => stream(toEvents([metadataFrame(), chunkFrame(text), ERROR_FRAME], { done: false }))
  const MARK = '--- the answer broke off here ---\nerror: the provider hung up'

  test.each([
    ['on a terminal', { stdout: true, stderr: true }, 'You have', 'You have\n', MARK],
    ['on a terminal, at the end of a line', { stdout: true, stderr: true }, 'You have\n', 'You have\n', MARK],
    ['in a pipe, byte for byte', {}, 'You have', 'You have', `\n${MARK}`],
    ['in a pipe, at the end of a line', {}, 'You have\n', 'You have\n', MARK],
  ])('stands apart from the error %s', async (_, terminal, text, stdout, stderr) => {
    gateway.on(ROUTE, broken(text))
    const result = await chat(['hi'], { terminal, env: { NO_COLOR: '1' } })
    expect(result).toMatchObject({ exitCode: 8, stdout })
    expect(result.stderr.slice(0, stderr.length)).toBe(stderr)
  })

  test('is shown as far as it came where it is rendered', async () => {
    gateway.on(ROUTE, broken('# Title\nYou **have'))
    const { stdout } = await chat(['hi', '--render', 'always'])
    expect(stdout).toBe('Title\n\nYou **have\n')
  })

  test('and was shown not at all needs no mark', async () => {
    gateway.on(ROUTE, stream(toEvents([metadataFrame(), ERROR_FRAME], { done: false })))
    expect((await chat(['hi'])).stderr).toMatch(/^error: /)
  })
})
