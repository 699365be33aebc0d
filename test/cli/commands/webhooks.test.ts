import { access, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sharedGateway } from '../../harness.ts'
import {
  DELIVERY_ID,
  deliveryDetails,
  type FakeGateway,
  json,
  KEY,
  SIGNING_SECRET,
  startFakeGateway,
  structuredError,
  webhookAt,
} from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

const IS_SECRET = /^whsec_\S{16,}\n$/
/** Nothing listens there. */
const URL = 'http://127.0.0.1:61999/hook'
const ID = '7'.repeat(24)
const HOOK = `/api/admin/webhooks/${ID}`

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(() => rm(folder, { recursive: true }))

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const webhooks = (words: string[], options: CliOptions = {}) =>
    runCli(['webhooks', ...words], {
      ...options,
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey, NO_COLOR: '1' },
    })
  const shown = async (webhook: string) => JSON.parse((await webhooks(['show', webhook, '--json'])).stdout)
  let count = 0
  const address = () => `${URL}/${++count}`
  const create = async (...more: string[]) =>
    JSON.parse((await webhooks(['create', '--url', address(), ...more, '--json'])).stdout)

  test('create prints the secret alone and every word on stderr, and subscribes to everything', async () => {
    const url = address()
    const { exitCode, stdout, stderr } = await webhooks(['create', '--url', url])
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(IS_SECRET)
    expect(stderr).toMatch(/^Created webhook [0-9a-f]{24}\. Its secret cannot be shown again\.\n$/)
    const webhook = await shown(url)
    expect(webhook).toMatchObject({ url, events: ['*'], enabled: true })
    expect(webhook).not.toHaveProperty('secret')
  })

  test('--debug shows the exchange of create and rotate-secret, and never the secret', async () => {
    const url = address()
    for (const words of [
      ['create', '--url', url],
      ['rotate-secret', url, '--yes'],
    ]) {
      const { exitCode, stdout, stderr } = await webhooks([...words, '--debug'])
      expect([exitCode, stdout]).toEqual([0, expect.stringMatching(IS_SECRET)])
      expect(stderr).toContain('"secret":"whsec_***"')
      expect(stderr).not.toContain(stdout.trim())
      expect(stderr).not.toMatch(/whsec_(?!\*)/)
    }
  })

  test('create takes every flag, and with --save-to keeps the secret in a file of mode 0600', async () => {
    const path = join(folder, 'hook.secret')
    const events = ['--event', 'pii:incident', '-e', 'dlp:incident', '-e', 'pii:incident']
    const made = await create('-d', 'On call', ...events, '--disabled', '--save-to', path)
    expect(made).toMatchObject({
      description: 'On call',
      events: ['pii:incident', 'dlp:incident'],
      enabled: false,
      disabledReason: 'manual',
    })
    expect(made).not.toHaveProperty('secret')
    expect(await readFile(path, 'utf8')).toMatch(IS_SECRET)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
  })

  test('create can run twice, and says in what the existing one differs', async () => {
    const url = address()
    const again = ['create', '--url', url, '--if-not-exists', '-o', 'json']
    const first = JSON.parse((await webhooks(again)).stdout)
    const second = await webhooks([...again, '-d', 'other'])
    expect(JSON.parse(second.stdout)).toMatchObject({ id: first.id, secret: null })
    expect(second.stderr).toContain('already exists; left unchanged (differs: description)')
    expect(second.stderr).toContain(`aigw webhooks rotate-secret ${first.id}`)
    expect(await webhooks([...again, '-d', 'other', '--strict'])).toMatchObject({ exitCode: 6, stdout: '' })
  })

  test('a mistake in an event is found before anything is sent', async () => {
    const wrong = await webhooks(['create', '--url', address(), '--event', 'pii:incidnet'])
    expect(wrong).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("Did you mean 'pii:incident'?") })
    const test = await webhooks(['update', ID, '--event', 'webhook:test'])
    expect(test).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('aigw webhooks test ID') })
  })

  test('update changes what is named and nothing else', async () => {
    const { id, url } = await create('-d', 'before', '-e', 'pii:incident')
    await webhooks(['update', url, '-d', 'after'])
    expect(await shown(id)).toMatchObject({ url, description: 'after', events: ['pii:incident'] })
    await webhooks(['update', id, '-e', '*'])
    expect(await shown(id)).toMatchObject({ description: 'after', events: ['*'] })
    expect(await webhooks(['update', id])).toMatchObject({ exitCode: 2 })
  })

  test('disable and enable are one word each', async () => {
    const { id, url } = await create()
    expect((await webhooks(['disable', url, '--field', 'disabledReason'])).stdout).toBe('manual\n')
    expect(await webhooks(['test', id])).toMatchObject({
      exitCode: 6,
      stderr: expect.stringContaining('aigw webhooks enable'),
    })
    expect((await webhooks(['enable', id, '--field', 'enabled'])).stdout).toBe('true\n')
  })

  test('list and delete know an endpoint by its id and its address', async () => {
    const { id, url } = await create()
    expect((await webhooks(['list', '-o', 'id'])).stdout.split('\n')).toContain(id)
    expect(await webhooks(['delete', url])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--yes') })
    expect(await webhooks(['delete', url, '--yes'])).toMatchObject({ exitCode: 0, stdout: '' })
    expect(await webhooks(['show', id])).toMatchObject({ exitCode: 3 })
    expect(await webhooks(['delete', id, '--yes'])).toMatchObject({ exitCode: 3 })
    expect(await webhooks(['rm', id, '--yes', '--ignore-not-found'])).toMatchObject({ exitCode: 0 })
  })

  test('an address that two have is refused, and the error names both', async () => {
    const { id, url } = await create()
    const other = JSON.parse((await webhooks(['create', '--url', url, '--json'])).stdout)
    const { exitCode, stderr } = await webhooks(['show', url])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(id)
    expect(stderr).toContain(other.id)
  })

  test('rotate-secret prints another secret, after a question', async () => {
    const { id, secret } = await create()
    expect(await webhooks(['rotate-secret', id])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('--yes'),
    })
    const { stdout } = await webhooks(['rotate-secret', id, '--yes'])
    expect(stdout).toMatch(IS_SECRET)
    expect(stdout.trim()).not.toBe(secret)
    expect(await shown(id)).toMatchObject({ previousSecretUntil: null })
  })

  test('rotate-secret --grace lets the earlier secret sign for a while', async () => {
    const { id } = await create()
    const { exitCode } = await webhooks(['rotate-secret', id, '--yes', '--grace', '1h', '-q'])
    expect(exitCode).toBe(0)
    const { previousSecretUntil } = await shown(id)
    expect(Date.parse(previousSecretUntil)).toBeGreaterThan(Date.now() + 3_000_000)
  })

  test('test starts a delivery that deliveries list and show know', async () => {
    const { id, url } = await create()
    const delivery = (await webhooks(['test', url, '-o', 'id'])).stdout.trim()
    const listed = await webhooks(['deliveries', 'list', '--webhook', url, '-o', 'id'])
    expect(listed.stdout).toBe(`${delivery}\n`)
    const shownDelivery = JSON.parse((await webhooks(['deliveries', 'show', delivery, '--json'])).stdout)
    expect(shownDelivery).toMatchObject({ id: delivery, webhookId: id, eventType: 'webhook:test', isTest: true })
    const none = await webhooks(['deliveries', 'list', '--webhook', id, '--event', 'pii:incident', '--json'])
    expect(none.stdout).toBe('[]\n')
    expect(await webhooks(['deliveries', 'show', DELIVERY_ID])).toMatchObject({ exitCode: 3 })
  })

  test('deliveries resend makes a delivery of its own', async () => {
    const { id } = await create()
    const delivery = (await webhooks(['test', id, '-o', 'id'])).stdout.trim()
    const resent = (await webhooks(['deliveries', 'resend', delivery, '-o', 'id'])).stdout.trim()
    const found = await webhooks(['deliveries', 'show', resent, '--field', 'resendOf'])
    expect(found.stdout).toBe(`${delivery}\n`)
  })

  test('recover says how much is on its way again', async () => {
    const { id } = await create()
    for (const since of ['7d', '2026-01-01', '2026-01-01T12:00:00+02:00']) {
      expect((await webhooks(['recover', id, '--since', since, '--field', 'recovered'])).stdout).toBe('0\n')
    }
    for (const since of ['yesterday', '7 d', '2026-13-01']) {
      expect(await webhooks(['recover', id, '--since', since])).toMatchObject({ exitCode: 2 })
    }
    expect(await webhooks(['recover', id])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--since') })
  })

  test('trigger sends a sample with what is said about it', async () => {
    const { id, url } = await create()
    const set = ['--set', 'count=9', '--set', 'entityTypes=IBAN,EMAIL_ADDRESS', '--set', 'action=block']
    const { stdout } = await webhooks(['trigger', 'pii:incident', ...set, '--webhook', url, '--json'])
    const sent = JSON.parse(stdout)
    expect(sent).toMatchObject({
      id: expect.stringMatching(/^evt_test_/),
      type: 'pii:incident',
      data: { count: 9, entityTypes: ['IBAN', 'EMAIL_ADDRESS'], action: 'block', direction: 'input' },
    })
    const listed = await webhooks(['deliveries', 'list', '--webhook', id, '-o', 'id'])
    expect(listed.stdout).toBe(`${sent.delivery_id}\n`)
  })

  test('trigger refuses what the event has not, before anything is sent', async () => {
    for (const set of ['nothing=1', 'count=many', 'count', 'count.x=1', '=1', 'constructor=1']) {
      const refused = await webhooks(['trigger', 'pii:incident', '--set', set])
      expect({ set, exitCode: refused.exitCode }).toEqual({ set, exitCode: 2 })
    }
    expect(await webhooks(['trigger', 'webhook:test'])).toMatchObject({ exitCode: 2 })
    expect(await webhooks(['trigger', 'pii:incident', '--edit'])).toMatchObject({ exitCode: 2 })
    expect(await webhooks(['trigger', 'pii:incident', '--webhook', ID])).toMatchObject({ exitCode: 3 })
  })
})

describe('with a scripted gateway', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())
  const webhooks = (words: string[], options: CliOptions = {}) =>
    runCli(['webhooks', ...words], {
      ...options,
      env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' },
    })

  test('a file that cannot be made stops a rotation before the gateway is asked', async () => {
    const path = join(folder, 'missing', 'hook.secret')
    expect(await webhooks(['rotate-secret', ID, '--yes', '--save-to', path])).toMatchObject({ exitCode: 1, stdout: '' })
    expect(gateway.requests).toEqual([])
  })

  test('a rotation that is refused leaves no file behind', async () => {
    gateway.on(`POST ${HOOK}/rotate-secret`, structuredError(500, 'INTERNAL_ERROR', 'broken'))
    const path = join(folder, 'hook.secret')
    expect(await webhooks(['rotate-secret', ID, '--yes', '--save-to', path])).toMatchObject({ exitCode: 1 })
    await expect(access(path)).rejects.toThrow('ENOENT')
  })

  test('a rotation asks for no overlap unless it is told to', async () => {
    expect((await webhooks(['rotate-secret', ID, '--yes'])).stdout).toBe(`${SIGNING_SECRET}\n`)
    await webhooks(['rotate-secret', ID, '--yes', '--grace', '24h'])
    expect(gateway.requests.map(({ json }) => json)).toEqual([{ overlap_seconds: 0 }, { overlap_seconds: 86_400 }])
  })

  test('enable tells of what was held', async () => {
    const held = webhookAt('https://example.com/hook', { heldDeliveries: 12 })
    gateway.on(`PUT ${HOOK}`, json(200, { success: true, webhook: held }))
    const { stderr } = await webhooks(['enable', ID])
    expect(stderr).toBe(`note: 12 deliveries were held; send them:  aigw webhooks recover ${ID} --since 7d\n`)
    expect((await webhooks(['disable', ID])).stderr).toBe('')
  })

  test('test --wait looks until the receiver has answered', async () => {
    const pending = deliveryDetails({ state: 'pending', attempts: 0, lastStatus: null, deliveredAt: null })
    const path = `GET /api/admin/deliveries/${DELIVERY_ID}`
    const found = (delivery: object) => json(200, { success: true, delivery })
    gateway.on(path, found(pending), found(pending), found(deliveryDetails()))
    const { exitCode, stdout } = await webhooks(['test', ID, '--wait', '--json'])
    expect({ exitCode, state: JSON.parse(stdout).state }).toEqual({ exitCode: 0, state: 'delivered' })
  })

  test('test --wait exits 10 with what the receiver answered, and says when the next attempt is', async () => {
    const failed = { state: 'pending', attempts: 1, lastStatus: 500, lastError: 'HTTP 500', nextAttemptAt: 'later' }
    const delivery = deliveryDetails(failed)
    gateway.on(`GET /api/admin/deliveries/${DELIVERY_ID}`, json(200, { success: true, delivery }))
    const { exitCode, stdout, stderr } = await webhooks(['test', ID, '--wait', '--field', 'lastStatus'])
    expect({ exitCode, stdout }).toEqual({ exitCode: 10, stdout: '500\n' })
    expect(stderr).toContain('the delivery was not acknowledged (HTTP 500)')
    expect(stderr).toContain('retries at later')
  })

  test('recover continues until no event is left', async () => {
    const part = (recovered: number, more: boolean) => json(200, { success: true, message: '', recovered, more })
    gateway.on(`POST ${HOOK}/recover`, part(1_000, true), part(1_000, true), part(7, false))
    const { stdout, stderr } = await webhooks(['recover', ID, '--since', '2026-01-01', '--field', 'recovered'])
    expect(stdout).toBe('2007\n')
    expect(stderr).toContain('2000 are scheduled; continuing')
    expect(gateway.requests.map(({ json }) => json)).toEqual(Array(3).fill({ since: '2026-01-01T00:00:00.000Z' }))
  })

  test('trigger --edit sends what the editor leaves, and nothing when that is no object', async () => {
    const edit = (command: string) =>
      runCli(['webhooks', 'trigger', 'pii:incident', '--set', 'count=2', '--edit'], {
        terminal: { stdin: true, stderr: true },
        env: {
          AIGW_BASE_URL: gateway.url,
          AIGW_API_KEY: KEY,
          PATH: process.env.PATH ?? '',
          EDITOR: command,
        },
      })
    expect(await edit("sed -i 's/mask/block/'")).toMatchObject({ exitCode: 0 })
    const [sent] = gateway.requests
    expect(sent?.json).toMatchObject({
      data: { action: 'block', redactionMode: 'block', count: 2, direction: 'input' },
    })
    expect(await edit("sed -i 's/{/[/'")).toMatchObject({ exitCode: 2 })
    expect(await edit('false')).toMatchObject({ exitCode: 2 })
    expect(gateway.requests).toHaveLength(1)
  })

  test('--dry-run shows the request and sends none', async () => {
    const { stdout } = await webhooks(['trigger', 'pii:incident', '--set', 'count=2', '--dry-run', '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ method: 'POST', body: { type: 'pii:incident', data: { count: 2 } } })
    expect(gateway.requests).toEqual([])
  })
})
