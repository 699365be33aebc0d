import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EVENT_CATALOG } from '../../../src/shared/event-catalog.ts'
import { EVENT_SAMPLES } from '../../../src/shared/event-samples.ts'
import { sign, verify } from '../../../src/shared/webhook-signature.ts'
import { EventEnvelope } from '../../../src/shared/wire/events.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

const SECRET_FILE = join(import.meta.dirname, '../../fixtures/webhook-secret.txt')
const SECRET = readFileSync(SECRET_FILE, 'utf8').trim()
const NOW = 1_767_225_600
const BODY = '{"id":"evt_9c1","type":"pii:incident","created":1767225600,"data":{}}'
const WITH_SECRET = ['--secret-file', SECRET_FILE]

const webhooks = (words: string[], { env, ...options }: CliOptions = {}) =>
  runCli(['webhooks', ...words], {
    ...options,
    env: { NO_COLOR: '1', ...env },
    io: { clock: createFakeClock(NOW * 1000), ...options.io },
  })

let folder: string
let file: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
  file = join(folder, 'body.json')
  await writeFile(file, BODY)
})
afterAll(() => rm(folder, { recursive: true }))

describe('sign', () => {
  test('prints the header that verify accepts, for a file and for stdin', async () => {
    const header = sign(BODY, [SECRET], NOW)
    const signed = await webhooks(['sign', file, ...WITH_SECRET])
    expect(signed).toEqual({ exitCode: 0, stdout: `${header}\n`, stderr: '' })
    expect((await webhooks(['sign', ...WITH_SECRET], { stdin: BODY })).stdout).toBe(signed.stdout)
    expect((await webhooks(['sign', '-', ...WITH_SECRET], { stdin: BODY })).stdout).toBe(signed.stdout)
    expect(await webhooks(['verify', file, ...WITH_SECRET, '--signature', header])).toMatchObject({ exitCode: 0 })
  })

  test('signs at the time that is given, in either form', async () => {
    for (const time of ['1700000000', '2023-11-14T22:13:20Z']) {
      const { stdout } = await webhooks(['sign', file, ...WITH_SECRET, '--timestamp', time, '-o', 'json'])
      expect(JSON.parse(stdout)).toEqual({ signature: sign(BODY, [SECRET], 1_700_000_000), timestamp: 1_700_000_000 })
    }
    expect(await webhooks(['sign', file, ...WITH_SECRET, '--timestamp', 'noon'])).toMatchObject({ exitCode: 2 })
  })

  test('takes the secret from the environment or stdin, and never shows it', async () => {
    const expected = `${sign(BODY, [SECRET], NOW)}\n`
    expect((await webhooks(['sign', file], { env: { AIGW_WEBHOOK_SECRET: SECRET } })).stdout).toBe(expected)
    expect((await webhooks(['sign', file, '--secret-file', '-'], { stdin: `${SECRET}\r\n` })).stdout).toBe(expected)
    const two = await webhooks(['sign', file], { env: { AIGW_WEBHOOK_SECRET: `${SECRET} and more` } })
    expect(two).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.not.stringContaining(SECRET) })
  })

  test('without a secret, a body, or with both on one stdin is a mistake', async () => {
    expect(await webhooks(['sign', file])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('--secret-file'),
    })
    expect(await webhooks(['sign', ...WITH_SECRET], { terminal: { stdin: true } })).toMatchObject({ exitCode: 2 })
    expect(await webhooks(['sign', '--secret-file', '-'], { stdin: 'x' })).toMatchObject({ exitCode: 2 })
    expect(await webhooks(['sign', join(folder, 'none'), ...WITH_SECRET])).toMatchObject({ exitCode: 2 })
  })
})

describe('verify', () => {
  const check = (header: string, more: string[] = [], options: CliOptions = {}) =>
    webhooks(['verify', file, ...WITH_SECRET, '--signature', header, ...more], options)

  test('prints validity, age and event', async () => {
    const header = sign(BODY, [SECRET], NOW - 4)
    expect(await check(header)).toEqual({
      exitCode: 0,
      stdout: 'ok: signature valid, 4 s old, event pii:incident (evt_9c1)\n',
      stderr: '',
    })
    expect(JSON.parse((await check(header, ['--json'])).stdout)).toEqual({
      valid: true,
      timestamp: NOW - 4,
      age_seconds: 4,
      event: 'pii:incident',
      id: 'evt_9c1',
    })
    const ahead = await check(sign(BODY, [SECRET], NOW + 4))
    expect(ahead.stdout).toBe('ok: signature valid, 4 s ahead, event pii:incident (evt_9c1)\n')
  })

  test('works on bytes, also those that are no JSON and no text', async () => {
    const bytes = Buffer.from([0xff, 0x00, 0x0d, 0x0a, 0x80])
    const header = sign(bytes, [SECRET], NOW)
    const verified = await webhooks(['verify', ...WITH_SECRET, '--signature', header], { stdin: bytes })
    expect(verified).toMatchObject({ exitCode: 0, stdout: 'ok: signature valid, 0 s old\n' })
  })

  test.each([
    ['a header that is none', 'whatever', 'MALFORMED_HEADER', 'cannot be read'],
    ['another secret', sign(BODY, ['whsec_other'], NOW), 'SIGNATURE_MISMATCH', 'does not match'],
    ['another body', sign(`${BODY}\n`, [SECRET], NOW), 'SIGNATURE_MISMATCH', 'does not match'],
    [
      'an old timestamp',
      sign(BODY, [SECRET], NOW - 912),
      'TIMESTAMP_OUTSIDE_TOLERANCE',
      'timestamp is 912 s old, tolerance is 300 s (the signature itself is correct)',
    ],
  ])('exits 10 for %s with the failed check', async (_, header, code, message) => {
    const failed = await check(header)
    expect(failed).toMatchObject({ exitCode: 10, stdout: '', stderr: expect.stringContaining(message) })
    expect(JSON.parse((await check(header, ['-o', 'json'])).stderr)).toMatchObject({ code, exit_code: 10 })
  })

  test('compares with the time and in the window that are given', async () => {
    const header = sign(BODY, [SECRET], NOW - 912)
    for (const more of [
      ['--tolerance', '912'],
      ['--tolerance', '16m'],
      ['--now', `${NOW - 900}`],
    ]) {
      expect(await check(header, more)).toMatchObject({ exitCode: 0 })
    }
    expect(await check(header, ['--tolerance', '911'])).toMatchObject({ exitCode: 10 })
    expect(await check(header, ['--tolerance', 'long'])).toMatchObject({ exitCode: 2 })
  })

  test('accepts any of several signatures, so that a rotation breaks nothing', async () => {
    expect(await check(sign(BODY, ['whsec_new', SECRET], NOW))).toMatchObject({ exitCode: 0 })
  })
})

test('accepts exactly the signed bytes', () => {
  const secrets = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 100 }), { minLength: 2, maxLength: 4 })
  const time = fc.integer({ min: 0, max: 2 ** 40 })
  fc.assert(
    fc.property(fc.uint8Array(), secrets, time, fc.nat(10_000), (body, [other = '', ...own], timestamp, at) => {
      const window = { toleranceSeconds: 300, now: timestamp }
      const header = sign(body, own, timestamp)
      for (const secret of own) expect(verify(body, header, [secret], window)).toMatchObject({ valid: true })
      expect(verify(body, header, [other, ''], window)).toMatchObject({ reason: 'signature_mismatch' })
      const changed = Buffer.concat([body, Buffer.from([at % 256])])
      expect(verify(changed, header, own, window)).toMatchObject({ reason: 'signature_mismatch' })
      const letters = [...sign(body, [other], timestamp)]
      letters[at % letters.length] = letters[at % letters.length] === '0' ? '1' : '0'
      expect(verify(body, letters.join(''), [other], window)).toMatchObject({ valid: false })
    }),
  )
})

describe('events', () => {
  test('lists the catalog without a gateway', async () => {
    const { exitCode, stdout } = await webhooks(['events', '-o', 'id'])
    const names = [...Object.keys(EVENT_CATALOG), 'webhook:test']
    expect({ exitCode, names: stdout.trim().split('\n') }).toEqual({ exitCode: 0, names })
  })

  test('lists the test event, which needs no subscription, and shows its sample', async () => {
    const listed = JSON.parse((await webhooks(['events', '--json'])).stdout)
    expect(listed.filter(({ subscribable }: { subscribable: boolean }) => !subscribable)).toEqual([
      { event: 'webhook:test', subscribable: false, fires_when: expect.stringContaining('aigw webhooks test') },
    ])
    const { stdout } = await webhooks(['events', '--sample', 'webhook:test'])
    expect(EventEnvelope.parse(JSON.parse(stdout))).toMatchObject({ type: 'webhook:test' })
  })

  test('shows a sample as a receiver would get it, ready to be signed', async () => {
    for (const [event, data] of Object.entries(EVENT_SAMPLES)) {
      const { stdout } = await webhooks(['events', '--sample', event])
      expect(JSON.parse(stdout)).toMatchObject({ id: expect.stringMatching(/^evt_test_/), type: event, data })
    }
    expect((await webhooks(['events', '--sample', 'pii:incident', '--field', 'data.count'])).stdout).toBe('3\n')
  })

  test('says what was probably meant', async () => {
    const { exitCode, stderr } = await webhooks(['events', '--sample', 'pii:incidnet'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain("Did you mean 'pii:incident'?")
  })
})
