import { once } from 'node:events'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { newApiKey } from '../../src/shared/ids.ts'
import { type InstalledCli, installCli } from '../cli/installed-cli.ts'
import { runDaemon } from './daemon-process.ts'

type Received = { headers: IncomingHttpHeaders; body: Buffer }

let cli: InstalledCli
let home: string
let env: Record<string, string>
let receiver: Server
let received: Received[]
let status: number
let address: string

beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())
beforeEach(async () => {
  received = []
  status = 204
  receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    received.push({ headers: request.headers, body: Buffer.concat(chunks) })
    response.writeHead(status).end()
  })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`
  home = await mkdtemp(join(cli.folder, 'home-'))
  const key = newApiKey()
  const args = ['--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')]
  const daemon = runDaemon(args, { home, env: { AIGW_BOOTSTRAP_KEY: key, WEBHOOKS_ALLOW_PRIVATE: 'true' } })
  env = { AIGW_BASE_URL: await daemon.url(), AIGW_API_KEY: key, HOME: home }
})
// daemon-process.ts ends the daemon.
afterEach(async () => {
  receiver.closeAllConnections()
  receiver.close()
  await once(receiver, 'close')
})

const webhooks = (...words: string[]) => cli.run(['webhooks', ...words], { env })

test('the command line verifies deliveries of the gateway with its stored secret, and rejects another secret', async () => {
  const secretFile = join(home, 'hook.secret')
  const created = await webhooks('create', '--url', address, '--save-to', secretFile, '-o', 'id')
  expect(created).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^[0-9a-f]{24}\n$/) })
  const id = created.stdout.trim()

  const tested = await webhooks('test', id, '--wait', '--json')
  expect(tested.exitCode, tested.stderr).toBe(0)
  expect(JSON.parse(tested.stdout)).toMatchObject({ state: 'delivered', lastStatus: 204, eventType: 'webhook:test' })

  const bodyFile = join(home, 'body.json')
  const check = async (file = secretFile) => {
    const post = received.at(-1)
    await writeFile(bodyFile, post?.body ?? '')
    const header = String(post?.headers['x-service-signature'])
    return webhooks('verify', bodyFile, '--signature', header, '--secret-file', file)
  }
  expect(await check()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('event webhook:test (evt_test_') })
  const otherFile = join(home, 'other.secret')
  await writeFile(otherFile, `${(await readFile(secretFile, 'utf8')).trim()}0\n`)
  expect(await check(otherFile)).toMatchObject({ exitCode: 10, stdout: '' })

  const rotated = await webhooks('rotate-secret', id, '--yes', '--grace', '1h', '--save-to', otherFile, '--force')
  expect(rotated.exitCode, rotated.stderr).toBe(0)
  await webhooks('test', id, '--wait')
  expect(await check()).toMatchObject({ exitCode: 0 })
  expect(await check(otherFile)).toMatchObject({ exitCode: 0 })

  status = 500
  const failed = await webhooks('test', id, '--wait', '--field', 'lastStatus')
  expect(failed).toMatchObject({ exitCode: 10, stdout: '500\n' })
})

test('listen shows and forwards triggered events, and Ctrl-C ends it', async () => {
  const { child, ended } = cli.start(['webhooks', 'listen', '-e', 'pii:*', '--forward-to', address], { env })
  if (child.stdout === null || child.stderr === null) throw new Error('no pipes')
  for await (const line of createInterface({ input: child.stderr })) if (line.startsWith('Ready.')) break
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const sent = await webhooks('trigger', 'pii:incident', '-o', 'id')
  expect(sent.exitCode, sent.stderr).toBe(0)
  expect((await lines.next()).value).toContain(`  pii:incident  ${sent.stdout.trim()}  -> 204  `)
  expect(received.map(({ headers }) => headers['x-service-event'])).toEqual(['pii:incident'])
  child.kill('SIGINT')
  expect(await ended).toMatchObject({ exitCode: 130 })
})
