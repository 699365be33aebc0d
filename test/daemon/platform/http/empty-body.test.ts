import { connect } from 'node:net'
import { expect, test } from 'vitest'
import type { Route } from '../../../../src/daemon/platform/http/route.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'

const clock = createFakeClock()
const gateway = sharedGateway({ clock })

const JSON_TYPE = 'Content-Type: application/json\r\n'
/** Every way to send no body, and the one that has always worked. */
const FORMS: [string, string][] = [
  ['{} as JSON', `${JSON_TYPE}Content-Length: 2\r\n\r\n{}`],
  ['nothing at all', '\r\n'],
  ['Content-Length: 0', 'Content-Length: 0\r\n\r\n'],
  ['Content-Length: 0 as JSON', `${JSON_TYPE}Content-Length: 0\r\n\r\n`],
  ['what curl -d "" sends', 'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n\r\n'],
  ['no chunk', 'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['no chunk as JSON', `${JSON_TYPE}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['no chunk as text', 'Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
]

/** The status of the answer, and its body. */
function send({ method, path }: Pick<Route, 'method' | 'path'>, rest: string): Promise<[number, string]> {
  const { hostname, port } = new URL(gateway.current.url)
  const target = path.replace(/\{\w+\}/g, '0'.repeat(24))
  const head = `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${gateway.current.adminKey}\r\n`
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), hostname, () => socket.write(head + rest))
    socket.setEncoding('utf8')
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', reject)
    socket.on('close', () => resolve([Number(text.split(' ')[1]), text.slice(text.indexOf('\r\n\r\n') + 4)]))
  })
}

/** Routes that change something and accept JSON or no body. */
const isJsonWrite = ({ method, bodyLimit }: Route): boolean => method !== 'GET' && bodyLimit !== 'unread'

test('every route that accepts {} accepts an empty body, however it is sent', async () => {
  const { body: api } = await gateway.current.call('GET', '/openapi.json', undefined, { key: null })
  const content: string[] = []
  for (const route of gateway.current.app.routes.filter(isJsonWrite)) {
    const name = `${route.method} ${route.path}`
    const [, usual = ''] = FORMS[0] ?? []
    const [expected, text] = await send(route, usual)
    const { required = false } = api.paths[route.path][route.method.toLowerCase()].requestBody ?? {}
    // Some handlers check the rights of the key before the body. An empty PUT is an error, because the client has
    // lost its body.
    expect([name, required], text).toEqual([name, route.method === 'PUT' || expected === 400 || expected === 403])
    // Rate limits are not tested here.
    clock.advance(60_000)
    if (required) continue
    content.push(name)
    for (const [form, rest] of FORMS) {
      const [status, body] = await send(route, rest)
      expect([name, form, status], body).toEqual([name, form, expected])
    }
    expect([name, expected === 415, expected === 429]).toEqual([name, false, false])
    clock.advance(60_000)
  }
  expect(content).toContain('POST /api/admin/webhooks/{webhookId}/rotate-secret')
  expect(content).toContain('POST /api/external/transparency/checkpoints')
})

test('a sent body must still be JSON, and a required body is still required', async () => {
  const rotate = { method: 'POST', path: '/api/admin/webhooks/{webhookId}/rotate-secret' } as const
  const plain = 'Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}'
  expect((await send(rotate, plain))[0]).toBe(415)
  expect((await send(rotate, 'Content-Length: 2\r\n\r\n{}'))[0]).toBe(415)
  expect((await send(rotate, `${JSON_TYPE}Content-Length: 1\r\n\r\n{`))[0]).toBe(400)
  const create = { method: 'POST', path: '/api/admin/webhooks' } as const
  expect((await send(create, 'Content-Length: 0\r\n\r\n'))[0]).toBe(415)
  expect((await send(create, `${JSON_TYPE}Content-Length: 0\r\n\r\n`))[0]).toBe(400)
  const update = { method: 'PUT', path: '/api/external/groups/{groupId}' } as const
  expect((await send(update, 'Content-Length: 0\r\n\r\n'))[0]).toBe(415)
  expect((await send(update, `${JSON_TYPE}Content-Length: 0\r\n\r\n`))[0]).toBe(400)
})
