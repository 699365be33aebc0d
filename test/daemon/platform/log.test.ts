import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { createLog, type DaemonLog, type LogLevel, withoutSecrets } from '../../../src/daemon/platform/log.ts'

/** Accepts writes and delays them while `hold` is pending. */
class Reader extends Writable {
  text = ''
  release: (() => void) | undefined
  #holding = false

  constructor() {
    super({ decodeStrings: false })
  }

  hold(): void {
    this.#holding = true
  }

  let(): void {
    this.#holding = false
    this.release?.()
  }

  override _write(chunk: string, _: string, done: () => void): void {
    this.text += chunk
    if (this.#holding) this.release = done
    else done()
  }

  get lines(): Record<string, unknown>[] {
    return this.text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  }
}

async function logged(level: LogLevel, write: (log: DaemonLog) => void): Promise<Record<string, unknown>[]> {
  const reader = new Reader()
  const log = createLog(level, reader)
  write(log)
  await log.flush()
  return reader.lines
}

test('an event is one line of JSON with its level, time, facts and message', async () => {
  const lines = await logged('info', (log) => log.info({ url: 'http://127.0.0.1:1' }, 'listening'))
  expect(lines).toEqual([
    {
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      url: 'http://127.0.0.1:1',
      msg: 'listening',
    },
  ])
})

test('events below the level are left out', async () => {
  const lines = await logged('warn', (log) => {
    log.debug({}, 'a')
    log.info({}, 'b')
    log.warn({}, 'c')
    log.error({}, 'd')
  })
  expect(lines.map(({ msg }) => msg)).toEqual(['c', 'd'])
})

test('secrets are removed from the log, at any depth and in error texts', async () => {
  const key = `sk-${'a1'.repeat(32)}`
  const lines = await logged('info', (log) => {
    log.info({ a: { b: { c: { headers: { Authorization: 'Basic hunter2', 'x-api-key': ['hunter2'] } } } } }, 'deep')
    log.info({ api_key: 'hunter2 "quoted\\" \\', database: 'postgres://u:hunter2@h/d' }, 'known names')
    log.error({ error: new Error(`refused ${key}`, { cause: new Error('Bearer hunter2') }) }, `no ${key}`)
    log.info({ secret: 'hunter2', body: 'whsec_hunter2hunter2' }, 'webhook')
  })
  expect(lines).toHaveLength(4)
  expect(JSON.stringify(lines)).not.toMatch(/hunter2|a1a1/)
  expect(lines[2]).toMatchObject({ error: { message: expect.stringContaining('refused sk-[secret]') } })
})

test('ids and hashes that only resemble secrets stay', async () => {
  const facts = { apiKeyId: '65a1', secret_hash: 'ab', requestId: 'req-1', tokens: 5 }
  expect(await logged('info', (log) => log.info(facts, 'x'))).toMatchObject([facts])
})

test('a line without its secrets is still JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.string(), (value, secret) => {
      const line = JSON.stringify({ value, api_key: secret, authorization: [secret], nested: { password: secret } })
      expect(JSON.parse(withoutSecrets(line))).toMatchObject({ api_key: '[secret]', nested: { password: '[secret]' } })
    }),
  )
})

describe('a process that logs and exits', () => {
  const LINES = 2_000
  const program = fileURLToPath(new URL('log-program.ts', import.meta.url))
  const loader = fileURLToPath(new URL('../../typescript-loader.mjs', import.meta.url))
  const started: ChildProcess[] = []
  afterEach(() => {
    for (const child of started.splice(0)) child.kill('SIGKILL')
  })

  function start(stdout: 'pipe' | number): ChildProcess {
    const child = spawn(process.execPath, ['--import', loader, program, String(LINES)], {
      stdio: ['pipe', stdout, 'inherit'],
    })
    started.push(child)
    return child
  }
  const numbers = (written: string) =>
    written
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).number)
  const inOrder = Array.from({ length: LINES }, (_, number) => number)

  test('leaves every line in a pipe, in order', async () => {
    const child = start('pipe')
    const ended = once(child, 'exit')
    child.stdin?.end()
    expect(numbers(await text(child.stdout as Readable))).toEqual(inOrder)
    await ended
  })

  test('leaves every line in a file, in order', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'aigw-test-'))
    const file = await open(join(directory, 'log'), 'w')
    const child = start(file.fd)
    child.stdin?.end()
    await once(child, 'exit')
    await file.close()
    expect(numbers(await readFile(join(directory, 'log'), 'utf8'))).toEqual(inOrder)
    await rm(directory, { recursive: true })
  })

  test('exits when the reader of its log has closed', async () => {
    const child = start('pipe')
    const gone = once(child.stdout ?? child, 'close')
    child.stdout?.destroy()
    await gone
    child.stdin?.end()
    expect(await once(child, 'exit')).toEqual([0, null])
  })
})

test('lines that a slow reader misses are dropped and counted, and the rest stays in order', async () => {
  const reader = new Reader()
  const log = createLog('info', reader)
  const filler = 'x'.repeat(1_000_000)
  reader.hold()
  for (let number = 0; number < 10; number++) log.info({ number, filler }, 'long')
  await new Promise((resolve) => setImmediate(resolve))
  expect(reader.writableLength).toBeLessThan(5_000_000)
  reader.let()
  log.info({ number: 10 }, 'short')
  await log.flush()
  expect(reader.lines.map(({ number, dropped }) => number ?? { dropped })).toEqual([0, 1, 2, 3, { dropped: 6 }, 10])
})
