import { describe, expect, test } from 'vitest'
import { sharedGateway } from '../../../harness.ts'
import { chatStream, replySteps } from '../../../upstream.ts'

const PAGE = 'https://app.example.com'
const PREFLIGHT = {
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization, content-type, x-stainless-os',
}
const body = { model: 'test/any', messages: [{ role: 'user', content: 'Hi' }] }

describe('without `cors.origins`', () => {
  const shared = sharedGateway()

  test('no response allows another origin', async () => {
    const headers = { origin: PAGE }
    const answer = await shared.current.call('GET', '/v1/models', undefined, { headers })
    expect(answer.headers).not.toHaveProperty('access-control-allow-origin')
    const preflight = await shared.current.call('OPTIONS', '/v1/models', undefined, {
      key: null,
      headers: { ...headers, ...PREFLIGHT },
    })
    expect(preflight.status).toBe(405)
    expect(preflight.headers).not.toHaveProperty('access-control-allow-methods')
  })
})

describe('with origins', () => {
  const shared = sharedGateway({ cors: { origins: [PAGE, 'http://localhost:3000'] } })
  const call = (method: string, path: string, origin: string | undefined, more = {}, given?: object, key?: null) =>
    shared.current.call(method, path, given, {
      ...(key === null && { key }),
      headers: { ...(origin && { origin }), ...more },
    })

  test('a preflight needs no key', async () => {
    for (const path of ['/v1/chat/completions', '/api/external/chat/completions', '/nowhere']) {
      const { status, headers, text } = await call('OPTIONS', path, PAGE, PREFLIGHT, undefined, null)
      expect([status, text]).toEqual([204, ''])
      expect(headers).toMatchObject({
        'access-control-allow-origin': PAGE,
        'access-control-allow-methods': 'GET, POST, PUT, DELETE',
        'access-control-allow-headers': PREFLIGHT['access-control-request-headers'],
        'access-control-max-age': '600',
        vary: 'origin',
        'x-request-id': expect.stringMatching(/^req-/),
      })
      expect(headers).not.toHaveProperty('access-control-allow-credentials')
    }
  })

  test('a preflight of another origin, and OPTIONS without one, are ordinary requests', async () => {
    for (const [origin, more] of [
      ['https://evil.example', PREFLIGHT],
      ['https://app.example.com.evil.example', PREFLIGHT],
      ['null', PREFLIGHT],
      [PAGE, {}],
      [undefined, PREFLIGHT],
    ] as const) {
      const { status, headers } = await call('OPTIONS', '/v1/models', origin, more, undefined, null)
      expect(status).toBe(405)
      expect(headers).not.toHaveProperty('access-control-allow-methods')
    }
  })

  test('names of headers that are no names are not allowed', async () => {
    const asked = { ...PREFLIGHT, 'access-control-request-headers': 'authorization, *' }
    const { status, headers } = await call('OPTIONS', '/v1/models', PAGE, asked, undefined, null)
    expect(status).toBe(204)
    expect(headers).not.toHaveProperty('access-control-allow-headers')
  })

  test('answers, errors and streams show their headers to the page', async () => {
    const ok = await call('POST', '/v1/chat/completions', 'http://localhost:3000', {}, body)
    const failed = await call('POST', '/v1/chat/completions', 'http://localhost:3000', {}, body, null)
    shared.current.upstream.script(replySteps([chatStream(['Hi.'])]))
    const stream = await call('POST', '/v1/chat/completions', 'http://localhost:3000', {}, { ...body, stream: true })
    expect([ok.status, failed.status, stream.status]).toEqual([200, 401, 200])
    for (const { headers } of [ok, failed, stream]) {
      expect(headers['access-control-allow-origin']).toBe('http://localhost:3000')
      expect(headers.vary).toBe('origin')
      const exposed = String(headers['access-control-expose-headers']).split(', ')
      expect(exposed).toEqual(expect.arrayContaining(['x-request-id', 'retry-after', 'ratelimit-remaining']))
      expect(headers).not.toHaveProperty('access-control-allow-credentials')
    }
  })

  test('a response for another origin, or for none, allows nothing, and caches keep it apart', async () => {
    for (const origin of ['https://evil.example', undefined]) {
      const { headers } = await call('GET', '/v1/models', origin)
      expect(headers).not.toHaveProperty('access-control-allow-origin')
      expect(headers.vary).toBe('origin')
    }
  })
})

describe('with `*`', () => {
  const shared = sharedGateway({ cors: { origins: ['*'] } })

  test('every origin may read responses, without credentials', async () => {
    const { headers } = await shared.current.call('GET', '/v1/models', undefined, { headers: { origin: 'null' } })
    expect(headers['access-control-allow-origin']).toBe('*')
    expect(headers).not.toHaveProperty('access-control-allow-credentials')
    expect(headers).not.toHaveProperty('vary')
  })
})
