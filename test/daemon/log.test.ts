import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLog, type DaemonLog, type LogLevel, withoutSecrets } from '../../src/daemon/log.ts'

async function logged(level: LogLevel, write: (log: DaemonLog) => void): Promise<Record<string, unknown>[]> {
  const directory = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  const file = await open(join(directory, 'log'), 'w')
  try {
    const log = createLog(level, file.fd)
    write(log)
    log.flush()
    const text = await readFile(join(directory, 'log'), 'utf8')
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  } finally {
    await file.close()
    await rm(directory, { recursive: true })
  }
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

test('secrets do not get into the log, at any depth and in error texts', async () => {
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

test('ids and hashes that only sound like secrets stay', async () => {
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
