import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { verify } from '../../../src/shared/webhook-signature.ts'
import { createFakeClock, type FakeClock } from '../../fake-clock.ts'
import { sharedGateway } from '../../harness.ts'
import {
  eventFrame,
  eventOf,
  type FakeGateway,
  feed,
  json,
  KEY,
  readyFrame,
  startFakeGateway,
  structuredError,
} from '../fake-gateway.ts'
import { type CliOptions, type CliResult, captured, runCli } from '../run-cli.ts'

const FEED = 'GET /api/admin/webhooks/recent-events'

/** Starts a listener; `said` resolves once stderr holds a text. */
function listen(words: string[], env: Record<string, string>, io: CliOptions['io'] = {}) {
  const stderr = captured()
  const ended: Promise<CliResult> = runCli(['webhooks', 'listen', ...words], {
    env: { NO_COLOR: '1', ...env },
    io: { stderr: stderr.stream, ...io },
  }).then((result) => ({ ...result, stderr: stderr.text() }))
  return {
    ended,
    async said(text: string): Promise<void> {
      while (!stderr.text().includes(text)) {
        await Promise.race([
          once(stderr.stream, 'drained'),
          ended.then(({ stderr: all }) => Promise.reject(new Error(`ended without "${text}": ${all}`))),
        ])
      }
    },
  }
}

type Received = { headers: IncomingMessage['headers']; body: Buffer }

let receiver: Server
let received: Received[]
let respond: (response: ServerResponse) => void
let address: string
beforeEach(async () => {
  received = []
  respond = (response) => response.writeHead(204).end()
  receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    received.push({ headers: request.headers, body: Buffer.concat(chunks) })
    respond(response)
  })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`
})
afterEach(async () => {
  receiver.closeAllConnections()
  receiver.close()
  await once(receiver, 'close')
})

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const env = () => ({ AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey })
  const webhooks = (...words: string[]) => runCli(['webhooks', ...words], { env: env() })

  test('shows each triggered event, and forwards it as a webhook with a valid signature', async () => {
    const secret = (await webhooks('listen', '--print-secret')).stdout.trim()
    expect(secret).toMatch(/^whsec_dev_[0-9a-f]{64}$/)
    const listener = listen(['--event', 'pii:*', '--forward-to', address, '--limit', '1', '-o', 'ndjson'], env())
    await listener.said(`Ready. Signing secret: ${secret}  (Ctrl-C to stop)\n`)
    await webhooks('trigger', 'dlp:incident')
    const triggered = JSON.parse((await webhooks('trigger', 'pii:incident', '--set', 'count=5', '--json')).stdout)
    const { exitCode, stdout } = await listener.ended

    expect(exitCode).toBe(0)
    const { delivery_id: _, ...event } = triggered
    const shown = JSON.parse(stdout)
    expect(shown).toMatchObject({ ...event, forwarded: { status: 204, error: null } })
    const [post, ...others] = received
    expect(others).toEqual([])
    expect(JSON.parse(String(post?.body))).toEqual(event)
    expect(post?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-service-event': 'pii:incident',
      'x-service-delivery': shown.forwarded.delivery,
    })
    const header = String(post?.headers['x-service-signature'])
    const window = { toleranceSeconds: 60, now: Math.floor(Date.now() / 1000) }
    expect(verify(post?.body ?? '', header, [secret], window)).toMatchObject({ valid: true })
  })

  test('needs no endpoint, and leaves none behind', async () => {
    const { body } = await gateway.current.call('GET', '/api/admin/webhooks')
    expect(body.webhooks).toEqual([])
  })
})

describe('with a scripted gateway', () => {
  let gateway: FakeGateway
  let clock: FakeClock
  beforeEach(async () => {
    gateway = await startFakeGateway()
    clock = createFakeClock()
  })
  afterEach(() => gateway.close())
  const env = () => ({ AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, TZ: 'UTC' })
  const events = (...ids: string[]) => ids.map((id) => eventFrame(eventOf('pii:incident', id), `at-${id}`))
  /** Lets a time pass that the listener waits for, once it does. */
  const due = async (ms: number) => {
    while (!clock.dueIn(ms)) await new Promise(setImmediate)
    clock.advance(ms)
  }
  const connections = () => gateway.requests.map(({ path }) => new URL(path, gateway.url).searchParams.get('since'))

  test("a line has the time, the event and the receiver's response", async () => {
    respond = (response) => response.writeHead(500).end('Error: db is locked\nat line 7')
    gateway.on(FEED, feed([readyFrame(), ...events('evt_1')], { open: true }))
    const { stdout } = await listen(['--limit', '1', '--forward-to', address], env(), { clock }).ended
    const time = new Date('2026-01-01T00:00:00Z').toTimeString().slice(0, 8)
    expect(stdout).toBe(`${time}  pii:incident  evt_1  -> 500  0 ms  Error: db is locked\n`)
  })

  test('an absent or silent receiver is reported and does not end the listener', async () => {
    gateway.on(FEED, feed([readyFrame(), ...events('evt_1', 'evt_2')], { open: true }))
    const refused = await listen(['--limit', '2', '--forward-to', 'http://127.0.0.1:1/'], env(), { clock }).ended
    expect(refused.stdout).toMatch(/evt_1 {2}-> failed {2}\d+ ms {2}connection refused\n/)

    const asked = once(receiver, 'request')
    respond = () => {}
    const silent = listen(['--limit', '1', '--forward-to', address], env(), { clock })
    await asked
    clock.advance(5_000)
    expect((await silent.ended).stdout).toMatch(/evt_1 {2}-> failed {2}5000 ms {2}no answer within 5 s\n/)
  })

  test('reconnects at the cursor after a disconnect, and shows every event once', async () => {
    gateway.on(
      FEED,
      feed([readyFrame('start'), ...events('evt_1')]),
      structuredError(503, 'OVERLOADED', 'draining'),
      feed([readyFrame('at-evt_1'), ...events('evt_1', 'evt_2')], { open: true }),
    )
    const listener = listen(['--limit', '2', '-o', 'id', '--retries', '0'], env(), { clock })
    await due(1_000)
    await due(2_000)
    expect(await listener.ended).toMatchObject({ exitCode: 0, stdout: 'evt_1\nevt_2\n' })
    expect(connections()).toEqual([null, 'at-evt_1', 'at-evt_1'])
    const { stderr } = await listener.ended
    expect(stderr).toContain('retrying in 1 s')
    expect(stderr).toContain('retrying in 2 s')
    expect(stderr.match(/Ready\./g)).toHaveLength(1)
    expect(stderr).toContain('note: connected again\n')
  })

  test('a gateway that falls silent without a word is asked again', async () => {
    gateway.on(FEED, feed([readyFrame('start')], { open: true }), feed([readyFrame(), ...events('evt_1')]))
    const listener = listen(['--limit', '1', '-o', 'id'], env(), { clock })
    await listener.said('Ready.')
    await due(45_000)
    await due(1_000)
    expect(await listener.ended).toMatchObject({ exitCode: 0, stdout: 'evt_1\n' })
  })

  test('a key that is refused ends it, at the start and later', async () => {
    const refusal = structuredError(403, 'INSUFFICIENT_PERMISSIONS', 'not yours')
    gateway.on(FEED, refusal)
    expect(await listen([], env()).ended).toMatchObject({ exitCode: 5, stdout: '' })
    gateway.on(FEED, feed([readyFrame()]), refusal)
    const listener = listen([], env(), { clock })
    await due(1_000)
    expect(await listener.ended).toMatchObject({ exitCode: 5 })
  })

  test('a response that is not a feed is reported', async () => {
    gateway.on(FEED, json(200, { success: true, events: [], next: null }))
    expect(await listen([], env()).ended).toMatchObject({ exitCode: 1, stdout: '' })
    gateway.on(FEED, feed([{ no: 'frame' }]))
    expect(await listen([], env()).ended).toMatchObject({ exitCode: 1, stdout: '' })
  })

  test('Ctrl-C ends it, also while a receiver is silent', async () => {
    const { Interrupted } = await import('../../../src/cli/errors.ts')
    gateway.on(FEED, feed([readyFrame(), ...events('evt_1')], { open: true }))
    const abort = new AbortController()
    const asked = once(receiver, 'request')
    respond = () => {}
    const listener = listen(['--forward-to', address], env(), { signal: abort.signal })
    await asked
    abort.abort(new Interrupted('SIGINT'))
    expect(await listener.ended).toMatchObject({ exitCode: 130, stdout: '' })
  })

  test('text of others cannot break a line or reach a terminal as a sequence', async () => {
    respond = (response) => response.writeHead(500).end('\x1b[2Jgone\r\nmore')
    gateway.on(FEED, feed([readyFrame(), ...events('evt_1')], { open: true }))
    const { stdout } = await runCli(['webhooks', 'listen', '--limit', '1', '--forward-to', address], {
      env: env(),
      terminal: { stdout: true },
    })
    expect(stdout).toMatch(/ms {2}gone\n$/)
  })

  test.each([
    [['--event', 'pii:incidnet']],
    [['--event', 'nothing:*']],
    [['--forward-to', 'localhost:3000']],
    [['--limit', '0']],
    [['-o', 'yaml']],
    [['--field', 'id']],
  ])('%j is a mistake that is found before the gateway is asked', async (words) => {
    expect(await listen(words, env()).ended).toMatchObject({ exitCode: 2, stdout: '' })
    expect(gateway.requests).toEqual([])
  })
})
