import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { createSender, type Sender } from '../../../src/daemon/webhooks/dispatch/attempt.ts'
import type { TargetGuard } from '../../../src/daemon/webhooks/target-guard.ts'
import { systemClock } from '../../../src/shared/time.ts'
import { deferred } from '../../deferred.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { answer, type Reaction, type Receiver, type ReceiverOptions, reply, startReceiver } from './receiver.ts'

const pem = (file: string) => readFileSync(new URL(`../../fixtures/tls/${file}`, import.meta.url), 'utf8')
const SELF_SIGNED = { key: pem('self-signed.key'), cert: pem('self-signed.crt') }

const loopback: TargetGuard = {
  resolve: async () => ['127.0.0.1'],
  allowPrivate: true,
  showPrivateBodies: true,
}
const opened: { close(): Promise<void> }[] = []

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

function sender(guard: TargetGuard = loopback, clock = systemClock): Sender {
  const made = createSender({ guard, clock })
  opened.push(made)
  return made
}

async function receiver(reaction?: Reaction, options?: ReceiverOptions): Promise<Receiver> {
  const made = await startReceiver(reaction, options)
  opened.push(made)
  return made
}

const post = (url: string, body = '{"id":"evt_1"}') => ({ url, body, headers: ['content-type', 'application/json'] })

describe('a response', () => {
  test.each([200, 201, 202, 204, 299])('%i acknowledges', async (status) => {
    const { url } = await receiver(reply(status))
    expect(await sender().send(post(url))).toMatchObject({ status, error: null, timedOut: false })
  })

  test.each([300, 301, 302, 303, 304, 307, 308, 400, 401, 404, 410, 429, 500, 503])(
    '%i is a failure, and no redirect is followed',
    async (status) => {
      const other = await receiver()
      const { url, received } = await receiver(reply(status, '', `location: ${other.url}\r\n`))
      expect(await sender().send(post(url))).toMatchObject({ status, error: `status ${status}` })
      expect([received.length, other.connections]).toEqual([1, 0])
    },
  )

  test('is stored up to 4 KiB, as text that every store accepts', async () => {
    const { url } = await receiver(reply(200, `a\0\u{1F600}${'x'.repeat(5_000)}`))
    const { response } = await sender().send(post(url))
    expect(response?.length).toBeLessThanOrEqual(4_096)
    expect(response?.slice(0, 5)).toBe('a\uFFFD\u{1F600}x')
  })

  test('of 2xx counts even if its body breaks off', async () => {
    const { url } = await receiver((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'))
    expect(await sender().send(post(url))).toMatchObject({ status: 200, error: null, response: 'half' })
  })
})

test('a request is sent as signed: the body byte for byte, and only the given headers and those of HTTP', async () => {
  const { url, received } = await receiver()
  const body = '{"text":"Grüße 😀"}'
  await sender().send(post(`${url}?a=%2f`, body))
  expect(received).toHaveLength(1)
  expect(received[0]).toMatchObject({ head: 'POST /hook?a=%2f HTTP/1.1', body })
  expect(Object.keys(received[0]?.headers ?? {}).sort()).toEqual([
    'connection',
    'content-length',
    'content-type',
    'host',
  ])
})

/** The connection is free after the turn that delivered the answer. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

test('consecutive attempts share one connection, which is not used after a second of inactivity', async () => {
  const sockets: Socket[] = []
  const { url } = await receiver((socket) => {
    sockets.push(socket)
    socket.write(answer(200))
  })
  const clock = createFakeClock()
  const one = sender(loopback, clock)
  for (const waitMs of [0, 999, 1_000]) {
    clock.advance(waitMs)
    expect(await one.send(post(url))).toMatchObject({ status: 200 })
    await turn()
  }
  expect([sockets[0] === sockets[1], sockets[1] === sockets[2]]).toEqual([true, false])
})

test('one attempt sends one POST, even if its server closes kept connections silently; later ones use new connections', async () => {
  const sockets: Socket[] = []
  const { url, received } = await receiver((socket, _, nth) => {
    sockets.push(socket)
    // Reads the second POST and closes, like an idle connection that is being closed.
    if (nth === 2) socket.destroy()
    else socket.write(answer(200))
  })
  const one = sender()
  const statuses: (number | null)[] = []
  for (let nth = 1; nth <= 4; nth++) {
    statuses.push((await one.send(post(url))).status)
    await turn()
    expect(received).toHaveLength(nth)
  }
  expect(statuses).toEqual([200, null, 200, 200])
  expect(new Set(sockets).size).toBe(3)
})

const CONTINUE = Buffer.from('HTTP/1.1 100 Continue\r\n\r\n')
const BLOCK = Buffer.alloc(65_536, 'y')

/** Writes while the peer reads. */
function flood(socket: Socket, first: string, block: Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.write(block));
  }
  socket.on('drain', more)
  if (first !== '') socket.write(first)
  more()
}

/** Faults of a receiver, and the results of the attempts. */
const bomb = (compress: (bytes: Buffer) => Buffer) => compress(Buffer.alloc(20_000_000))
const GZIP_BOMB = bomb((bytes) => gzipSync(bytes))
const BROTLI_BOMB = bomb((bytes) => brotliCompressSync(bytes))
const FAULTS: Record<string, { react?: Reaction; options?: ReceiverOptions; late?: boolean; error: RegExp | null }> = {
  'closes at once': { options: { onConnection: (socket) => Boolean(socket.destroy()) }, error: /./ },
  'resets at once': { options: { onConnection: (socket) => Boolean(socket.resetAndDestroy()) }, error: /./ },
  'resets after the request': { react: (socket) => socket.resetAndDestroy(), error: /./ },
  'resets inside the head': {
    react: (socket) => socket.write('HTTP/1.1 200', () => socket.resetAndDestroy()),
    error: /./,
  },
  'ends inside the head': { react: (socket) => socket.end('HTTP/1.1 200 OK\r\nx: y'), error: /./ },
  'resets inside the body': {
    react: (socket) => socket.write('HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nhal', () => socket.resetAndDestroy()),
    error: /./,
  },
  'never answers': { react: () => undefined, late: true, error: /within 5 s/ },
  'never reads': { options: { onConnection: (socket) => Boolean(socket.pause()) }, late: true, error: /within 5 s/ },
  'drips its head': {
    react: (socket) => socket.write('HTTP/1.1 200 OK\r\nx-a: '),
    late: true,
    error: /within 5 s/,
  },
  'drips the body of a failure': {
    react: (socket) => socket.write('HTTP/1.1 500 No\r\ncontent-length: 100\r\n\r\ndrip'),
    late: true,
    error: /within 5 s/,
  },
  'drips the body of a success': {
    react: (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndrip'),
    late: true,
    error: null,
  },
  'sends 10 GB': {
    react(socket) {
      socket.write('HTTP/1.1 500 No\r\ncontent-length: 10000000000\r\n\r\n')
      const block = Buffer.alloc(65_536, 'x')
      const more = () => {
        while (!socket.destroyed && socket.write(block));
      }
      socket.on('drain', more)
      more()
    },
    error: /status 500/,
  },
  'sends a head without end': {
    react(socket) {
      socket.write('HTTP/1.1 200 OK\r\n')
      const more = () => {
        while (!socket.destroyed && socket.write(`x-a: ${'y'.repeat(8_000)}\r\n`));
      }
      socket.on('drain', more)
      more()
    },
    error: /./,
  },
  'sends a gzip bomb': {
    react(socket) {
      socket.write(`HTTP/1.1 500 No\r\ncontent-encoding: gzip\r\ncontent-length: ${GZIP_BOMB.length}\r\n\r\n`)
      socket.write(GZIP_BOMB)
    },
    error: /status 500/,
  },
  'sends a brotli bomb': {
    react(socket) {
      socket.write(`HTTP/1.1 500 No\r\ncontent-encoding: br\r\ncontent-length: ${BROTLI_BOMB.length}\r\n\r\n`)
      socket.write(BROTLI_BOMB)
    },
    error: /status 500/,
  },
  'says continue without being asked': {
    react: (socket) => socket.write(Buffer.concat([CONTINUE, CONTINUE, answer(200)])),
    error: null,
  },
  'says continue byte by byte': {
    react(socket) {
      const bytes = Buffer.concat([CONTINUE, answer(200)])
      socket.setNoDelay(true)
      let sent = 0
      const more = () => sent < bytes.length && socket.write(bytes.subarray(sent, ++sent), () => setImmediate(more))
      more()
    },
    error: null,
  },
  'says continue and goes': { react: (socket) => socket.end(CONTINUE), error: /./ },
  'says continue for ever': { react: (socket) => flood(socket, '', CONTINUE), error: /larger than 64 KiB/ },
  'gives hints without end': {
    react: (socket) => flood(socket, '', Buffer.from('HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n')),
    error: /larger than 64 KiB/,
  },
  'gives a reason without end': {
    react: (socket) => flood(socket, 'HTTP/1.1 500 ', BLOCK),
    error: /larger than 64 KiB/,
  },
  'extends a chunk without end': {
    react: (socket) => flood(socket, 'HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n1;', BLOCK),
    error: /larger than 64 KiB/,
  },
  'gives early hints, then an answer': {
    react: (socket) =>
      socket.write(Buffer.concat([Buffer.from('HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'), answer(204)])),
    error: null,
  },
  'switches protocols': { react: reply(101), error: /./ },
  'speaks something else': { react: (socket) => socket.write('220 mail.example ESMTP\r\n'), error: /./ },
  'sends random bytes': { react: (socket) => socket.write(Buffer.from([0, 255, 254, 1, 2, 3, 13, 10])), error: /./ },
  'contradicts itself about the length': {
    react: (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab'),
    error: /./,
  },
  'has no TLS behind https': { options: {}, late: true, error: /within 5 s/ },
}

describe('a receiver that', () => {
  test.each(Object.entries(FAULTS))('%s: the attempt ends in time and closes its socket', async (name, fault) => {
    const target = await receiver(fault.react, fault.options)
    const clock = createFakeClock()
    const one = sender(loopback, clock)
    const url = name === 'has no TLS behind https' ? target.url.replace('http', 'https') : target.url
    const sent = one.send(post(url))
    if (fault.late) {
      await (fault.react ? target.arrived(1) : connected(target))
      // The receiver's bytes must arrive before the timeout.
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
      clock.advance(4_999)
      expect(await Promise.race([sent, 'still running'])).toBe('still running')
      clock.advance(1)
    }
    const result = await sent
    if (fault.error === null) expect(result.error).toBeNull()
    else expect(result.error).toMatch(fault.error)
    expect(result.timedOut).toBe(fault.late === true)
    expect(result.response?.length ?? 0).toBeLessThanOrEqual(4_096)
    await one.close()
    await target.idle()
    expect(clock.pending).toBe(0)
  })

  test.each(['body', 'reason', 'hints', 'chunk'])(
    'floods 100 attempts with its %s: none uses more than 256 KB',
    async (kind) => {
      // In a separate process, so that its buffers are not measured.
      const program = new URL('flooding-receiver.mjs', import.meta.url)
      const child = spawn(process.execPath, [fileURLToPath(program), kind], { stdio: ['ignore', 'pipe', 'inherit'] })
      opened.push({
        async close() {
          const gone = once(child, 'exit')
          child.kill()
          await gone
        },
      })
      const [port] = await once(child.stdout, 'data')
      const url = `http://127.0.0.1:${Number(String(port))}/`
      const one = sender()
      const attempts = async () => {
        let peak = 0
        const each = async (_: unknown, at: number) => {
          expect(await one.send(post(url))).toMatchObject({ timedOut: false, error: expect.any(String) })
          if (at % 10 === 0) peak = Math.max(peak, heldBytes())
        }
        await Promise.all(Array.from({ length: 100 }, each))
        return peak
      }
      await attempts()
      const before = heldBytes()
      expect(((await attempts()) - before) / 100).toBeLessThan(262_144)
    },
  )

  test('with a valid certificate gets the delivery', async () => {
    const { url } = await receiver(reply(200), { tls: SELF_SIGNED })
    const one = createSender({ guard: loopback, clock: systemClock, ca: SELF_SIGNED.cert })
    opened.push(one)
    expect(await one.send(post(url))).toMatchObject({ status: 200 })
    expect(await one.send(post(url.replace('127.0.0.1', 'receiver.example')))).toMatchObject({ status: 200 })
    const wrong = await one.send(post(url.replace('127.0.0.1', 'other.example')))
    expect(wrong).toMatchObject({ status: null, error: expect.stringContaining('ERR_TLS_CERT_ALTNAME_INVALID') })
  })

  test('with an untrusted certificate gets no delivery', async () => {
    const { url, received } = await receiver(reply(200), { tls: SELF_SIGNED })
    expect(await sender().send(post(url))).toMatchObject({ status: null, error: expect.stringMatching(/self.signed/i) })
    expect(received).toEqual([])
  })
})

async function connected(target: Receiver): Promise<void> {
  for (let turn = 0; turn < 1_000 && target.connections === 0; turn++) await new Promise((done) => setImmediate(done))
  expect(target.connections).toBe(1)
}

test('a name that does not resolve in time ends the attempt after 5 s, and no connection is opened later', async () => {
  const target = await receiver()
  const clock = createFakeClock()
  const lookup = deferred<string[]>()
  const guard = { ...loopback, resolve: () => lookup.promise }
  const sent = sender(guard, clock).send(post(`http://slow.example:${target.port}/`))
  clock.advance(5_000)
  expect(await sent).toMatchObject({ status: null, timedOut: true, durationMs: 5_000 })
  lookup.resolve(['127.0.0.1'])
  for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done))
  expect(target.connections).toBe(0)
})

test('a connection that cannot be opened is aborted with its attempt', async () => {
  // 203.0.114.1 never responds. Without a route the attempt fails at once, which is equivalent.
  const clock = createFakeClock()
  const guard: TargetGuard = { resolve: async () => ['203.0.114.1'], allowPrivate: true }
  const one = sender(guard, clock)
  const sent = one.send(post('http://nowhere.example/'))
  await new Promise((resolve) => setImmediate(resolve))
  clock.advance(5_000)
  expect((await sent).error).toMatch(/within 5 s|E[A-Z]+/)
})

test('however a name resolves over time, no forbidden address is ever contacted', async () => {
  const outside = await receiver(reply(200), { host: '127.0.0.2' })
  // 127.0.0.2 stands for a public address. A listener on the same port of 127.0.0.1 would detect a wrong connection.
  const inside = await receiver(reply(200), { port: outside.port })
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.subarray(['127.0.0.1', '127.0.0.2', '169.254.169.254', '10.0.0.1'], { minLength: 1 }), {
        minLength: 1,
        maxLength: 6,
      }),
      async (schedule) => {
        let asked = 0
        const guard: TargetGuard = {
          allowPrivate: true,
          resolve: async () => {
            const now = schedule[asked % schedule.length] ?? []
            asked++
            return now
          },
          isOwn: (address) => address === '127.0.0.1' || address === '10.0.0.1',
        }
        const one = createSender({ guard, clock: systemClock })
        try {
          for (const answers of schedule) {
            const { error, status } = await one.send(post(`http://flips.example:${outside.port}/`))
            const good = answers.every((address) => address === '127.0.0.2')
            expect([good, status]).toEqual([good, good ? 200 : null])
            if (!good) expect(error).toMatch(/gateway itself|must not call/)
          }
        } finally {
          await one.close()
        }
      },
    ),
    { numRuns: 60 },
  )
  expect(inside.connections).toBe(0)
})

test('an open connection is not used for a name that now resolves to another address', async () => {
  const first = await receiver(reply(200), { host: '127.0.0.2' })
  let addresses = ['127.0.0.2']
  const guard: TargetGuard = { allowPrivate: true, resolve: async () => addresses }
  const one = sender(guard)
  const url = `http://moves.example:${first.port}/`
  expect(await one.send(post(url))).toMatchObject({ status: 200 })
  addresses = ['127.0.0.3']
  expect(await one.send(post(url))).toMatchObject({ status: null, error: expect.stringContaining('ECONNREFUSED') })
  addresses = ['169.254.169.254']
  expect(await one.send(post(url))).toMatchObject({ status: null, error: expect.stringContaining('must not call') })
  expect(first.received).toHaveLength(1)
})

describe('a private receiver', () => {
  const guard: TargetGuard = { resolve: async () => ['127.0.0.1'], allowPrivate: true }

  test.each([200, 500])('shows its status, and never its response (%i)', async (status) => {
    const { url } = await receiver(reply(status, 'internal page'))
    expect(await sender(guard).send(post(url))).toMatchObject({ status, response: null })
  })

  test('does not show its address in an error', async () => {
    const { error } = await sender(guard).send(post('http://hook.example:2/'))
    expect(error).toBe('ECONNREFUSED')
  })

  test('shows its response if the operator allows it', async () => {
    const { url } = await receiver(reply(200, 'page'))
    expect(await sender({ ...guard, showPrivateBodies: true }).send(post(url))).toMatchObject({ response: 'page' })
  })
})

test('closing aborts running attempts and leaves no connection', async () => {
  const target = await receiver(() => undefined)
  const one = sender()
  const sent = one.send(post(target.url))
  await target.arrived(1)
  await one.close()
  expect(await sent).toMatchObject({ status: null, error: 'the gateway was shut down' })
  await target.idle()
})

test('100 attempts of every kind leave the number of sockets unchanged', async () => {
  const reactions = Object.values(FAULTS).flatMap(({ react, late }) => (react && !late ? [react] : []))
  const targets = await Promise.all(reactions.map((reaction) => receiver(reaction)))
  const one = sender()
  for (let round = 0; round < 6; round++) await Promise.all(targets.map(({ url }) => one.send(post(url))))
  await one.close()
  for (const target of targets) await target.idle()
  expect(targets.map(({ open }) => open)).toEqual(targets.map(() => 0))
})

test.each(['http', 'https'])('a peer that is rejected after connecting gets no byte (%s)', async (scheme) => {
  let bytes = 0
  const target = await receiver(reply(200), {
    onConnection: (socket) => Boolean(socket.on('data', ({ length }) => (bytes += length))),
  })
  let asked = 0
  // Accepts the address at the lookup and rejects it at the connection.
  const guard: TargetGuard = {
    resolve: async () => ['127.0.0.1'],
    get allowPrivate() {
      return asked++ < 2
    },
  }
  const { error } = await sender(guard).send(post(`${scheme}://hook.example:${target.port}/`))
  expect(error).toMatch(/private/)
  await target.idle()
  expect([bytes, target.connections]).toEqual([0, 1])
})

/** The memory that this process retains. The resident size would depend on the last collection. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
