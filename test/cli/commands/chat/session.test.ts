import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Interrupted } from '../../../../src/cli/errors.ts'
import {
  answer,
  chunkFrame,
  ERROR_FRAME,
  type FakeGateway,
  flatError,
  KEY,
  metadataFrame,
  modelList,
  startFakeGateway,
  stream,
  toEvents,
} from '../../fake-gateway.ts'
import type { CliOptions } from '../../run-cli.ts'
import { KEYS, pasted, startOnTerminal } from '../../scripted-terminal.ts'

const ROUTE = 'POST /api/external/chat/completions'
const PROMPT = 'local/extract > '
const { enter, ctrlC, ctrlD, ctrlG, tab, up } = KEYS

let gateway: FakeGateway
let folder: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  folder = await mkdtemp(join(tmpdir(), 'aigw-session-'))
})
afterEach(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

const start = (words: string[] = [], options: CliOptions = {}) =>
  startOnTerminal(['chat', '-m', 'local/extract', ...words], {
    ...options,
    env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, XDG_STATE_HOME: folder, ...options.env },
  })

/** Begins a session, types each line at its prompt, leaves and gives the terminal back. */
async function session(lines: string[], words: string[] = [], options: CliOptions = {}) {
  const terminal = start(words, options)
  for (const line of lines) {
    await terminal.shows(' > ')
    terminal.type(line + enter)
  }
  await terminal.shows(' > ')
  terminal.type(ctrlD)
  expect(await terminal.ended).toBe(0)
  return terminal
}

const bodies = () => gateway.requests.filter(({ method }) => method === 'POST').map(({ json }) => Object(json))
const lastMessages = () => bodies().at(-1)?.messages

describe('a session', () => {
  test('sends the earlier messages with each message, in one conversation', async () => {
    const { stdout } = await session(['How many?', 'And next year?'])
    expect(stdout()).toContain('You have 28 days.\n')
    expect(bodies()).toMatchObject([
      { messages: [{ role: 'user', content: 'How many?' }], stream: true, model: 'local/extract' },
      {
        messages: [
          { role: 'user', content: 'How many?' },
          { role: 'assistant', content: 'You have 28 days.' },
          { role: 'user', content: 'And next year?' },
        ],
        conversation_id: 'conv-1',
      },
    ])
    expect(bodies()[0]).not.toHaveProperty('conversation_id')
  })

  test('sends no Idempotency-Key, for with one the gateway would finish an answer that Ctrl-C has stopped', async () => {
    gateway.on(ROUTE, (_, response) => void response.destroy())
    const { stderr } = await session(['How many?'])
    const asked = gateway.requests.filter(({ method }) => method === 'POST')
    expect(asked.map(({ headers }) => headers['idempotency-key'])).toEqual([undefined])
    expect(stderr()).toContain('error')
  })

  test('begins only where a person sees and answers', async () => {
    const terminal = start(['--no-input'])
    expect(await terminal.ended).toBe(2)
    expect(terminal.stderr()).toContain('no prompt given')
    expect(await start(['-o', 'json']).ended).toBe(2)
    expect(await start(['--idempotency-key', 'x']).ended).toBe(2)
  })

  test('restores the terminal at every exit', async () => {
    const abort = new AbortController()
    const ways: [number, (terminal: ReturnType<typeof start>) => void][] = [
      [0, ({ type }) => type(ctrlD)],
      [0, ({ type }) => type(`/exit${enter}`)],
      [0, ({ hangUp }) => hangUp()],
      [143, () => abort.abort(new Interrupted('SIGTERM'))],
    ]
    for (const [exitCode, leave] of ways) {
      const terminal = start([], { io: { signal: abort.signal } })
      await terminal.shows(PROMPT)
      expect(terminal.isRaw()).toBe(true)
      leave(terminal)
      expect(await terminal.ended).toBe(exitCode)
      expect(terminal.isRaw()).toBe(false)
      expect(terminal.stdout()).toMatch(/\x1b\[\?2004h.*\x1b\[\?2004l$/s)
    }
  })

  test('may be long: no listener of one message is left for the next', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => void warnings.push(warning)
    process.on('warning', onWarning)
    await session(Array.from({ length: 12 }, () => '/usage'))
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
  })

  test('continues after a failure, which is reported', async () => {
    gateway.on(ROUTE, flatError(403, 'Access denied', 'Not this model.'), answer('Fine.'))
    const { stdout, stderr } = await session(['One', 'Two'])
    expect(stderr()).toContain('error: Not this model. (Access denied)')
    expect(stdout()).toContain('Fine.\n')
    // The question without an answer is not part of what was said.
    expect(lastMessages()).toEqual([{ role: 'user', content: 'Two' }])
  })

  test('keeps and marks a truncated answer', async () => {
    gateway.on(
      ROUTE,
      stream(toEvents([metadataFrame(), chunkFrame('You have'), ERROR_FRAME], { done: false })),
      answer('Fine.'),
    )
    const { stdout, stderr } = await session(['One', 'Two', '/history'])
    expect(stderr()).toContain('--- the answer broke off here ---\nerror: the provider hung up')
    expect(stdout()).toContain('  You have (broken off)\n')
    expect(lastMessages()).toMatchObject([{}, { role: 'assistant', content: 'You have' }, {}])
  })
})

describe('Ctrl-C', () => {
  test('stops the answer at the gateway, and its part is kept and marked', async () => {
    const gone = new Promise<void>((resolve) => {
      gateway.on(
        ROUTE,
        (_, response) => {
          response.on('close', resolve)
          response.writeHead(200, { 'content-type': 'text/event-stream' })
          response.write(toEvents([metadataFrame(), chunkFrame('You have')], { done: false }))
        },
        answer('Fine.'),
      )
    })
    const terminal = start()
    await terminal.shows(PROMPT)
    terminal.type(`One${enter}`)
    await terminal.shows('You have')
    terminal.type(ctrlC)
    await gone
    await terminal.shows(PROMPT)
    terminal.type(`Two${enter}`)
    await terminal.shows('Fine.')
    await terminal.shows(PROMPT)
    terminal.type(`/history${enter}`)
    await terminal.shows('You have (stopped)')
    terminal.type(ctrlD)
    expect(await terminal.ended).toBe(0)
    expect(terminal.stderr()).toBe('--- stopped ---\n')
    expect(lastMessages()).toMatchObject([{ content: 'One' }, { content: 'You have' }, { content: 'Two' }])
  })

  test('discards the line, and on an empty line prints how to leave', async () => {
    const terminal = start()
    await terminal.shows(PROMPT)
    terminal.type(`half a quest${ctrlC}`)
    await terminal.shows('^C\n')
    await terminal.shows(PROMPT)
    terminal.type(ctrlC)
    await terminal.shows('Ctrl-D or /exit leaves')
    terminal.type(`Whole${enter}`)
    await terminal.shows('28 days')
    terminal.type(ctrlD)
    await terminal.ended
    expect(lastMessages()).toEqual([{ role: 'user', content: 'Whole' }])
  })

  test('text that is typed during an answer is used for the next message', async () => {
    const terminal = start()
    gateway.on(
      ROUTE,
      (request, response) => {
        terminal.type(`Two${enter}`)
        return answer('First.')(request, response)
      },
      answer('Second.'),
    )
    await terminal.shows(PROMPT)
    terminal.type(`One${enter}`)
    await terminal.shows('First.')
    await terminal.shows('Second.')
    terminal.type(ctrlD)
    await terminal.ended
    expect(lastMessages()).toMatchObject([{ content: 'One' }, { content: 'First.' }, { content: 'Two' }])
  })
})

describe('a message of several lines', () => {
  test.each([
    ['a paste', [`Why? ${pasted('a\tb\rc\r\nd\r')}`, enter], 'Why? a\tb\nc\nd'],
    ['a paste of one line, which can be changed', [pasted('Why this\r'), '?', enter], 'Why this?'],
    ['a paste in pieces', ['\x1b[20', '0~a\nb\x1b', '[201', `~${enter}`], 'a\nb'],
    ['lines between quotes', ['"""', enter, 'a', enter, '', enter, 'b"""', enter], 'a\n\nb'],
    ['lines that end with a backslash', ['a\\', enter, 'b', enter], 'a\nb'],
  ])('is %s', async (_, keys, message) => {
    const terminal = start()
    await terminal.shows(PROMPT)
    for (const text of keys) terminal.type(text)
    await terminal.shows('28 days')
    terminal.type(ctrlD)
    await terminal.ended
    expect(lastMessages()).toEqual([{ role: 'user', content: message }])
  })

  test('that was pasted without marks is one message for each line, none lost', async () => {
    const terminal = start()
    await terminal.shows(PROMPT)
    terminal.type('a\rb\rc\r')
    for (let at = 0; at < 3; at++) await terminal.shows('28 days')
    terminal.type(ctrlD)
    await terminal.ended
    expect(bodies().map(({ messages }) => messages.at(-1).content)).toEqual(['a', 'b', 'c'])
  })
})

describe('the history', () => {
  test('comes back in the next session with the Up key, messages of several lines whole', async () => {
    await session([`Why? ${pasted('a\nb')}`])
    const path = join(folder, 'aigw', 'chat-history')
    expect(await readFile(path, 'utf8')).toBe('"Why? a\\nb"\n')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    await session([up])
    expect(lastMessages()).toEqual([{ role: 'user', content: 'Why? a\nb' }])
  })

  test('is made private again, and stays away with AIGW_NO_HISTORY', async () => {
    await session(['One'])
    const path = join(folder, 'aigw', 'chat-history')
    await chmod(path, 0o644)
    await session(['Two'])
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    await rm(join(folder, 'aigw'), { recursive: true })
    await session(['One'], [], { env: { AIGW_NO_HISTORY: '1' } })
    expect(await readdir(folder)).toEqual([])
  })

  test('that cannot be written is no failure', async () => {
    await writeFile(join(folder, 'aigw'), 'in the way')
    const { stderr } = await session(['One', 'Two'])
    expect(stderr()).toBe('')
  })
})

describe('slash commands', () => {
  test('change model, chain, index, policy, shield, system prompt and options of what follows', async () => {
    const { stdout } = await session([
      '/model openai/gpt-4o',
      '/index My Handbook',
      '/policy internal',
      '/shield on',
      '/system Be brief',
      '/set temperature 0.2',
      '/set max-tokens 50',
      'One',
      '/chain a/b@8s/2s,c/d',
      '/index none',
      '/policy none',
      '/shield off',
      '/system none',
      '/set temperature none',
      '/set max-tokens none',
      'Two',
    ])
    expect(stdout()).toContain('openai/gpt-4o @my-handbook > ')
    expect(stdout()).toContain('a/b +1 > ')
    expect(bodies()[0]).toMatchObject({
      ...{ model: 'openai/gpt-4o', index: 'my-handbook', smltp_policy: 'internal', prompt_shield: { enabled: true } },
      ...{ system_message: 'Be brief', temperature: 0.2, max_tokens: 50 },
    })
    const { messages: _, ...rest } = bodies()[1]
    expect(rest).toEqual({
      models: [{ model: 'a/b', timeout_ms: 8_000, first_token_timeout_ms: 2_000 }, { model: 'c/d' }],
      ...{ index: 'Zero-Knowledge', prompt_shield: { enabled: false }, conversation_id: 'conv-1', stream: true },
    })
  })

  test('that are invalid change nothing and state the reason', async () => {
    const { stderr } = await session([
      '/modle',
      '/model /nonsense',
      '/set speed 3',
      '/shield maybe',
      '/file /no/such',
      'One',
    ])
    for (const text of [
      'there is no command /modle',
      'Did you mean /model?',
      "'/nonsense' is not a model",
      '/set takes temperature or max-tokens',
      '/shield is on or off',
      'cannot read /no/such',
    ])
      expect(stderr()).toContain(text)
    expect(bodies()).toMatchObject([{ model: 'local/extract' }])
  })

  test('a message that begins with a path, or a space and a slash, is a message', async () => {
    await session(['/etc/hosts is what?', ' /new or old?'])
    expect(lastMessages()).toMatchObject([{ content: '/etc/hosts is what?' }, {}, { content: ' /new or old?' }])
  })

  test('/file adds a file to the next message, and to that one only', async () => {
    const path = join(folder, 'a.ts')
    await writeFile(path, 'x\n')
    await session([`/file ${path}`, 'Why?', 'And?'])
    expect(lastMessages()).toMatchObject([{ content: '```a.ts\nx\n```\n\nWhy?' }, {}, { content: 'And?' }])
  })

  test('/retry asks again in place of the last answer, and after a failure', async () => {
    gateway.on(ROUTE, answer('First.'), answer('Second.'), flatError(502, 'x', 'Down.'), answer('Up.'))
    await session(['One', '/retry', 'Two', '/retry'])
    expect(bodies().map(({ messages }) => messages.map(({ content }: { content: string }) => content))).toEqual([
      ['One'],
      ['One'],
      ['One', 'Second.', 'Two'],
      ['One', 'Second.', 'Two'],
    ])
  })

  test('/new removes the messages, /save writes them to a file, /history shows them', async () => {
    const path = join(folder, 'talk.md')
    const { stdout, stderr } = await session(['One', '/history', `/save ${path}`, `/save ${path}`, '/new', 'Two'])
    expect(stdout()).toContain('> One\n  You have 28 days.\n')
    expect(await readFile(path, 'utf8')).toBe('## Question\n\nOne\n\n## Answer\n\nYou have 28 days.\n')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(stderr()).toContain('file already exists')
    expect(lastMessages()).toEqual([{ role: 'user', content: 'Two' }])
    expect(bodies()[1]).not.toHaveProperty('conversation_id')
  })

  test('/sources, /usage and /json show what belongs to the last answer', async () => {
    const { stdout } = await session(['/usage', 'One', '/sources', '/usage', '/json'])
    expect(stdout()).toContain('Sources: leave.md (0.91)\n')
    expect(stdout()).toContain('412 in / 38 out')
    expect(stdout()).toContain('session: 1 answers, 412 in / 38 out')
    expect(stdout()).toContain('"content": "You have 28 days."')
  })

  test("/copy sends the answer to the terminal's clipboard, and text of a model cannot", async () => {
    const hostile = '\x1b]52;c;ZXZpbA==\x07hi'
    gateway.on(ROUTE, answer(hostile))
    const { stdout } = await session(['One', '/history', '/json', '/copy'])
    expect(stdout()).not.toContain('\x1b]52;c;ZXZpbA==')
    expect(stdout()).toContain(`\x1b]52;c;${Buffer.from(hostile).toString('base64')}\x07`)
  })

  test('/help lists every command, /clear clears', async () => {
    const { stdout } = await session(['/help', '/clear'])
    for (const name of 'help model chain index policy shield system set file retry edit copy save sources usage json history clear new exit'.split(
      ' ',
    ))
      expect(stdout()).toMatch(new RegExp(`^/${name} `, 'm'))
    expect(stdout()).toContain('\x1b[2J')
  })

  test('Tab completes their names and the names of models', async () => {
    const terminal = start()
    await terminal.shows(PROMPT)
    terminal.type(`/mod${tab}`)
    await terminal.shows('/model ')
    terminal.type(`open${tab}`)
    await terminal.shows('/gpt-4o')
    terminal.type(enter)
    await terminal.shows('openai/gpt-4o > ')
    terminal.type(ctrlD)
    await terminal.ended
    expect(gateway.requests.map(({ path }) => path)).toEqual(['/api/external/models'])
  })

  test('Tab types no name that would do something to the terminal', async () => {
    gateway.on('GET /api/external/models', modelList(['a/\x1b[2Jb\r/exit', 'a/good']))
    const terminal = start()
    await terminal.shows(PROMPT)
    terminal.type(`/model a${tab}`)
    await terminal.shows('/good')
    terminal.type(`${enter}`)
    await terminal.shows('a/good > ')
    terminal.type(ctrlD)
    await terminal.ended
    expect(terminal.stdout()).not.toContain('\x1b[2J')
  })
})

describe('the editor', () => {
  const editor = async (script: string) => {
    const path = join(folder, 'editor.sh')
    await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    return { env: { VISUAL: path, PATH: process.env.PATH ?? '' } }
  }

  test('opens with Ctrl-G on what is typed, and its text is the next message', async () => {
    const terminal = start([], await editor('printf "%s\\nmore\\n" "$(cat "$1")!" > "$1"'))
    await terminal.shows(PROMPT)
    terminal.type(`Why${ctrlG}`)
    await terminal.shows('2 lines')
    expect(terminal.isRaw()).toBe(true)
    terminal.type(enter)
    await terminal.shows('28 days')
    terminal.type(ctrlD)
    await terminal.ended
    expect(lastMessages()).toEqual([{ role: 'user', content: 'Why!\nmore' }])
  })

  test('/edit begins with the last question', async () => {
    await session(['One', '/edit', ''], [], await editor('echo "$(cat "$1") more" > "$1"'))
    expect(lastMessages().at(-1)).toEqual({ role: 'user', content: 'One more' })
  })

  test('that fails loses nothing', async () => {
    const terminal = start([], await editor('exit 3'))
    await terminal.shows(PROMPT)
    terminal.type(`Why${ctrlG}`)
    await terminal.shows(`${PROMPT}`)
    await terminal.shows('Why')
    terminal.type(enter)
    await terminal.shows('28 days')
    terminal.type(ctrlD)
    await terminal.ended
    expect(terminal.stderr()).toContain('failed')
    expect(lastMessages()).toEqual([{ role: 'user', content: 'Why' }])
  })
})

test('a conversation that exceeds one request continues with its latest messages, and a note', async () => {
  const path = join(folder, 'long.txt')
  await writeFile(path, 'x'.repeat(200_000))
  const { stderr } = await session([`/file ${path}`, 'One', `/file ${path}`, 'Two'])
  expect(stderr()).toBe('note: the first 2 messages are omitted, because a request cannot contain more\n')
  expect(lastMessages()).toHaveLength(1)
})

test('--continue continues the last session', async () => {
  await session(['One'])
  const { stdout } = await session(['Two'], ['-c'])
  expect(stdout()).toContain('Continuing after 2 messages.')
  expect(lastMessages()).toMatchObject([{ content: 'One' }, { content: 'You have 28 days.' }, { content: 'Two' }])
  expect(bodies().at(-1)).toMatchObject({ conversation_id: 'conv-1' })
})
