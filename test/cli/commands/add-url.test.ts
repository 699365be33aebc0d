import type { lookup } from 'node:dns'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDialling, type Dialling } from '../../../src/cli/commands/indexes/own-network.ts'
import { FETCH_TIMEOUT_MS, fetchDocument } from '../../../src/cli/commands/indexes/web-document.ts'
import { reachThroughNat64 } from '../../../src/shared/address-reach.ts'
import { TRAIN_FILE_BYTES } from '../../../src/shared/spec-limits.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type FakeGateway, json, KEY, readMultipart, startFakeGateway, trainResult } from '../fake-gateway.ts'
import { runCli } from '../run-cli.ts'

const TRAIN = 'POST /api/external/indexes/handbook/train'

type Answer = { status?: number; headers?: http.OutgoingHttpHeaders; body?: string; cut?: boolean }

let gateway: FakeGateway
let site: http.Server
let origin: string
let pages: Record<string, Answer>
let asked: http.IncomingMessage[]
beforeEach(async () => {
  gateway = await startFakeGateway()
  pages = {}
  asked = []
  site = http.createServer((request, response) => {
    asked.push(request)
    const { status = 200, headers = {}, body = '', cut = false } = pages[request.url ?? ''] ?? { status: 404 }
    response.writeHead(status, headers)
    if (cut) response.write(body, () => response.destroy())
    else response.end(body)
  })
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
})
afterEach(async () => {
  site.closeAllConnections()
  await new Promise((resolve) => site.close(resolve))
  await gateway.close()
})

const add = (...words: string[]) =>
  runCli(['indexes', 'add', 'handbook', ...words], { env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY } })

/** Adds one address and returns what was sent to the gateway. */
async function sentFor(path: string) {
  let sent: { name: string; content: string }[] = []
  gateway.on(TRAIN, async (request, response) => {
    const parts = await readMultipart(request)
    sent = parts.map(({ name, content }) => ({ name, content: String(content) }))
    const documents = parts.map(({ name }) => ({ name, status: 'indexed', chunks: 1 }))
    return json(200, trainResult(documents))(request, response)
  })
  const { exitCode, stderr } = await add(`${origin}${path}`)
  expect([exitCode, stderr.includes('1 added')]).toEqual([0, true])
  return sent
}

const DISPOSITION = 'content-disposition'

test.each([
  ['/docs/guide.md', {}, '/docs/guide.md'],
  ['/docs/guide.md?version=2#top', { 'content-type': 'text/markdown' }, '/docs/guide.md?version=2.md'],
  ['/docs/guide.pdf?version=2', { 'content-type': 'application/octet-stream' }, '/docs/guide.pdf?version=2.pdf'],
  ['/caf%C3%A9.txt', {}, '/café.txt'],
  ['/cafe%CC%81.txt', {}, '/café.txt'],
  ['/a%2F..%2Fb.md?of=../../c.md', {}, '/a_.._b.md?of=.._.._c.md'],
  ['/docs/', { 'content-type': 'text/html; charset=utf-8' }, '/docs/index.html'],
  ['/page.php', { 'content-type': 'text/html' }, '/page.php.html'],
  ['/a?id=5', { [DISPOSITION]: 'attachment; filename="the \\"report\\".pdf"' }, '/a?id=5/the %22report%22.pdf'],
  ['/a', { [DISPOSITION]: "attachment; filename=x.txt; filename*=UTF-8''%C3%BCber.md" }, '/a/über.md'],
  ['/a', { [DISPOSITION]: 'attachment; filename="../../etc/passwd.txt"' }, '/a/passwd.txt'],
  ['/a', { [DISPOSITION]: 'attachment; filename="C:\\\\temp\\\\notes.md"' }, '/a/notes.md'],
])('%s with the headers %j is sent as %s behind its host', async (path, headers, name) => {
  pages[path.split('#')[0] ?? ''] = { headers, body: 'Some text.' }
  expect(await sentFor(path)).toEqual([{ name: `${new URL(origin).host}${name}`, content: 'Some text.' }])
})

test('pages of one name at several addresses are several documents, however long their addresses are', async () => {
  const long = 'x'.repeat(300)
  const paths = ['/en/install/', '/de/install/', `/${long}/1.md`, `/${long}/2.md`]
  for (const path of paths) pages[path] = { headers: { 'content-type': 'text/html' }, body: 'Some text.' }
  const names = []
  for (const path of paths) names.push((await sentFor(path))[0]?.name ?? '')
  expect(new Set(names).size).toBe(4)
  expect(Math.max(...names.map(({ length }) => length))).toBeLessThanOrEqual(200)
})

test('what an address leads to is called by the address that was typed', async () => {
  pages['/latest'] = { status: 302, headers: { location: '/v2/guide.md?signature=1' } }
  pages['/v2/guide.md?signature=1'] = { body: 'Text.' }
  expect((await sentFor('/latest'))[0]?.name).toBe(`${new URL(origin).host}/latest.md`)
})

/** Looks every name up at the site of these tests, and says it were at `address`. */
function namesAt(addresses: Record<string, string | string[]>): Dialling {
  const dialling = createDialling(((host: string, _: object, done: (error: null, found: object[]) => void) =>
    done(
      null,
      [addresses[host]].flat().map((address) => ({ address, family: address?.includes(':') ? 6 : 4 })),
    )) as typeof lookup)
  return {
    check: dialling.check,
    lookup: (host, options, done) =>
      dialling.lookup(host, { ...options, all: true }, (error) =>
        error ? done(error, '') : done(null, [{ address: '127.0.0.1', family: 4 }]),
      ),
  }
}

const fetchAt = (address: string, dialling: Dialling) =>
  fetchDocument(
    address,
    { io: { clock: createFakeClock(), signal: new AbortController().signal }, timeoutMs: FETCH_TIMEOUT_MS },
    dialling,
  )

test.each([
  ['a loopback address', 'http://127.0.0.1:1/a.md'],
  ['an address of IPv6', 'http://[::1]:1/a.md'],
  ['one of IPv4 in IPv6', 'http://[::ffff:10.0.0.1]/a.md'],
  ['a name of the own network', 'http://intranet.test/a.md'],
])('a site of others does not lead into the own network: %s', async (_, location) => {
  pages['/a.md'] = { status: 302, headers: { location: '/b.md' } }
  pages['/b.md'] = { status: 302, headers: { location } }
  const port = new URL(origin).port
  const dialling = namesAt({ 'public.test': '93.184.216.34', 'intranet.test': '192.168.1.7' })
  await expect(fetchAt(`http://public.test:${port}/a.md`, dialling)).rejects.toThrow('which is in your own network')
  expect(asked.map(({ url }) => url)).toEqual(['/a.md', '/b.md'])
})

test.each([
  ['the metadata of a cloud', 'http://169.254.169.254/latest/a.md'],
  ['the metadata of a cloud in IPv6', 'http://[fd00:ec2::254]/a.md'],
  ['a reserved address', 'http://240.0.0.1/a.md'],
  ['IPv4 in 6to4', 'http://[2002:7f00:1::]/a.md'],
  ['IPv4 in Teredo', 'http://[2001:0:7f00:1::]/a.md'],
  ['IPv4-compatible IPv6', 'http://[::7f00:1]/a.md'],
  ['translated IPv4', 'http://[::ffff:0:7f00:1]/a.md'],
])('nobody is led to %s, not even from the own network', async (_, location) => {
  const port = new URL(origin).port
  pages['/a.md'] = { status: 302, headers: { location } }
  for (const first of ['93.184.216.34', '10.0.0.1']) {
    const fetched = fetchAt(`http://first.test:${port}/a.md`, namesAt({ 'first.test': first }))
    await expect(fetched).rejects.toThrow('which has a reserved address')
  }
})

test('a site with a public and a private address does not count as one of the own network', async () => {
  const port = new URL(origin).port
  const dialling = namesAt({ 'both.test': ['93.184.216.34', '10.0.0.1'] })
  await expect(fetchAt(`http://both.test:${port}/a.md`, dialling)).rejects.toThrow('which is in your own network')
  expect(asked).toEqual([])
})

test('on a network without IPv4, the addresses of the translator count as those that they stand for', async () => {
  const port = new URL(origin).port
  pages['/a.md'] = { body: 'Text.' }
  expect((await fetchAt(`http://a.test:${port}/a.md`, namesAt({ 'a.test': '64:ff9b::5db8:d822' }))).size).toBe(5)
  const led = namesAt({ 'a.test': '64:ff9b::5db8:d822', 'b.test': '64:ff9b::a00:1' })
  pages['/b.md'] = { status: 302, headers: { location: `http://b.test:${port}/a.md` } }
  await expect(fetchAt(`http://a.test:${port}/b.md`, led)).rejects.toThrow('which is in your own network')
})

test('addresses behind the local-use prefix of a translator count as those that they stand for, in each of its forms', () => {
  for (const [address, reach] of [
    ['64:ff9b:1::5db8:d822', 'public'],
    ['64:ff9b:1:5db8:d8:2200::', 'public'],
    ['64:ff9b:1:a5d:b8:d822::', 'public'],
    ['64:ff9b:1:abcd:5d:b8d8:2200:0', 'public'],
    ['64:ff9b:1::a00:1', 'private'],
    ['64:ff9b:1:a00:0:100::', 'private'],
    ['64:ff9b:1:ab0a:0:1::', 'private'],
    ['64:ff9b:1:abcd:a:0:100:0', 'private'],
    ['64:ff9b:1:a9fe:a9:fe00::', 'special'],
    ['64:ff9b:1:abcd:a9:fea9:fe00:0', 'special'],
  ] as const)
    expect([address, reachThroughNat64(address)]).toEqual([address, reach])
})

test('who typed an address of the own network is led through it, and others to public ones', async () => {
  const port = new URL(origin).port
  pages['/a.md'] = { status: 302, headers: { location: `http://other.test:${port}/b.md` } }
  pages['/b.md'] = { body: 'Text.' }
  for (const [first, next] of [
    ['10.0.0.1', '192.168.1.7'],
    ['93.184.216.34', '93.184.216.35'],
  ] as const) {
    const dialling = namesAt({ 'first.test': first, 'other.test': next })
    expect((await fetchAt(`http://first.test:${port}/a.md`, dialling)).size).toBe(5)
  }
})

test('neither the key nor anything else that tells who asks goes along', async () => {
  pages['/a.md'] = { status: 302, headers: { location: '/b.md', 'set-cookie': 'a=b' } }
  pages['/b.md'] = { body: 'Text.' }
  await sentFor('/a.md')
  expect(asked.map(({ url }) => url)).toEqual(['/a.md', '/b.md'])
  for (const { headers } of asked) {
    expect(Object.keys(headers).sort()).toEqual(['accept', 'accept-encoding', 'connection', 'host', 'user-agent'])
  }
})

test('redirects are followed five times, and no further', async () => {
  for (let at = 0; at < 9; at++) pages[`/${at}`] = { status: 307, headers: { location: `/${at + 1}` } }
  pages['/9'] = { headers: { 'content-type': 'text/plain' }, body: 'Text.' }
  await sentFor('/4')
  asked = []
  const { exitCode, stderr } = await add(`${origin}/3`)
  expect([exitCode, stderr]).toEqual([9, expect.stringContaining('redirects more than 5 times')])
  expect(asked).toHaveLength(6)
})

test.each([
  ['a page that is not there', '/none.md', 9, 'answered 404'],
  ['an answer that breaks off', '/cut.md', 9, 'could not be downloaded'],
  ['an empty one', '/empty.md', 2, 'is empty'],
  ['another kind of file', '/image.png', 2, 'is an unsupported file type'],
  ['one that says it is too large', '/large.md', 2, 'is larger than 50 MB'],
  ['one that is packed', '/packed.md', 9, 'sent an unexpected encoding (gzip)'],
  ['a redirect to another kind of address', '/file.md', 2, 'is not an address of http or https'],
  ['a redirect to an address with a password', '/secret.md', 2, 'with a name or password'],
])('%s is refused, and nothing is sent', async (_, path, code, reason) => {
  pages['/cut.md'] = { headers: { 'content-length': 100 }, body: 'short', cut: true }
  pages['/empty.md'] = {}
  pages['/image.png'] = { headers: { 'content-type': 'image/png' }, body: 'PNG' }
  pages['/large.md'] = { headers: { 'content-length': TRAIN_FILE_BYTES + 1 }, cut: true }
  pages['/packed.md'] = { headers: { 'content-encoding': 'gzip' }, body: 'x' }
  pages['/file.md'] = { status: 302, headers: { location: 'file:///etc/passwd.md' } }
  pages['/secret.md'] = { status: 302, headers: { location: `${origin.replace('//', '//user:password@')}/a.md` } }
  const { exitCode, stderr } = await add(`${origin}${path}`)
  expect([exitCode, stderr]).toEqual([code, expect.stringContaining(reason)])
  expect(gateway.requests).toEqual([])
})

test('an address with a password is not fetched', async () => {
  const { exitCode } = await add(`${origin.replace('//', '//user:password@')}/a.md`)
  expect([exitCode, asked]).toEqual([2, []])
})

test('two addresses that would give one name are refused', async () => {
  pages['/a/'] = { headers: { 'content-type': 'text/html' }, body: 'One.' }
  pages['/a/index.html'] = { body: 'Two.' }
  const { exitCode, stderr } = await add(`${origin}/a/`, `${origin}/a/index.html`)
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringMatching(/two documents would be called '[^']*\/a\/index\.html'/),
  ])
})

test('what never comes is given up in time', async () => {
  const clock = createFakeClock()
  const silent = http.createServer()
  const reached = new Promise((resolve) => silent.once('request', resolve))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const address = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/a.md`
  const io = { clock, signal: new AbortController().signal }
  const fetched = fetchDocument(address, { io, timeoutMs: FETCH_TIMEOUT_MS })
  await reached
  clock.advance(FETCH_TIMEOUT_MS)
  await expect(fetched).rejects.toThrow('did not arrive within 60 seconds')
  expect(clock.pending).toBe(0)
  silent.closeAllConnections()
  await new Promise((resolve) => silent.close(resolve))
})
