import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  answer,
  chunkFrame,
  type FakeGateway,
  KEY,
  metadataFrame,
  startFakeGateway,
  toEvents,
} from '../../fake-gateway.ts'
import { type InstalledCli, installCli } from '../../installed-cli.ts'
import { KEYS, pasted } from '../../scripted-terminal.ts'

const ROUTE = 'POST /api/external/chat/completions'
const PROMPT = 'local/extract > '
/** `script` of util-linux runs a command on a terminal of its own; others take other flags. */
const hasScript = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0

describe.runIf(hasScript)('a session on a real terminal', () => {
  let cli: InstalledCli
  let gateway: FakeGateway
  let child: ChildProcess | undefined
  beforeAll(async () => {
    cli = await installCli()
  })
  afterAll(() => cli.remove())
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(async () => {
    if (child?.exitCode === null) child.kill('SIGKILL')
    await gateway.close()
  })

  /** A shell on a terminal that runs `aigw chat` and then says how it found the terminal. */
  function start() {
    const aigw = `'${process.execPath}' '${join(cli.folder, 'bin/aigw.js')}' chat -m local/extract`
    const started = spawn('script', ['-qc', `${aigw}; echo "exit $?"; stty -a`, '/dev/null'], {
      env: {
        PATH: process.env.PATH ?? '',
        HOME: cli.folder,
        AIGW_API_KEY: KEY,
        AIGW_BASE_URL: gateway.url,
        CI: '1',
        TERM: 'xterm',
        SHELL: '/bin/sh',
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    child = started
    let text = ''
    let read = 0
    started.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    return {
      closed: once(started, 'close'),
      type: (keys: string) => void started.stdin.write(keys),
      async shows(expected: string) {
        while (text.indexOf(expected, read) < 0) await once(started.stdout, 'data')
        read = text.indexOf(expected, read) + expected.length
      },
      text: () => text,
    }
  }

  test('takes pastes whole, stops an answer with Ctrl-C and gives the terminal back as it was', async () => {
    const terminal = start()
    await terminal.shows(PROMPT)
    terminal.type(pasted('How many\rdays?'))
    await terminal.shows('2 lines')
    terminal.type(KEYS.enter)
    await terminal.shows('You have 28 days.')
    await terminal.shows(PROMPT)

    const gone = new Promise<void>((resolve) => {
      gateway.on(
        ROUTE,
        (_, response) => {
          response.on('close', resolve)
          response.writeHead(200, { 'content-type': 'text/event-stream' })
          response.write(toEvents([metadataFrame(), chunkFrame('On and on\n\n')], { done: false }))
        },
        answer('Fine.'),
      )
    })
    terminal.type(`And?${KEYS.enter}`)
    await terminal.shows('On and on')
    terminal.type(KEYS.ctrlC)
    await gone
    await terminal.shows('--- stopped ---')
    await terminal.shows(PROMPT)
    terminal.type(KEYS.ctrlD)
    await terminal.shows('exit 0')
    await terminal.closed
    expect(terminal.text()).toMatch(/(?<!-)icanon/)
    expect(terminal.text()).toMatch(/(?<!-)isig/)
    expect(terminal.text()).toMatch(/ (?<!-)echo /)
    expect(gateway.requests.map(({ json }) => Object(json).messages.at(-1).content)).toEqual([
      'How many\ndays?',
      'And?',
    ])
  })
})
