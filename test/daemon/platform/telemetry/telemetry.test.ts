import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Gateway, startGateway } from '../../../harness.ts'
import { gatewayAfterWork, SECRET_TEXT } from '../metrics/work.ts'

type Value = { stringValue?: string; intValue?: number; doubleValue?: number; arrayValue?: { values: Value[] } }
type Attributes = { key: string; value: Value }[]
type Span = {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  attributes: Attributes
  status: { code?: number }
}
type Metric = { name: string; histogram: { dataPoints: { count: number; sum: number; attributes: Attributes }[] } }

/** A collector that keeps what it receives. */
class Collector {
  readonly received: { path: string; text: string; headers: NodeJS.Dict<string | string[]> }[] = []
  status = 200
  readonly #server: Server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    this.received.push({ path: request.url ?? '', text: Buffer.concat(pieces).toString(), headers: request.headers })
    response.writeHead(this.status, { 'content-type': 'application/json' }).end('{}')
  })

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  spans(): Span[] {
    return this.#sent('/v1/traces').flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ scopeSpans }: never) =>
        (scopeSpans as { spans: Span[] }[]).flatMap(({ spans }) => spans),
      ),
    )
  }

  metrics(): Metric[] {
    return this.#sent('/v1/metrics').flatMap(({ resourceMetrics }) =>
      resourceMetrics.flatMap(({ scopeMetrics }: never) =>
        (scopeMetrics as { metrics: Metric[] }[]).flatMap(({ metrics }) => metrics),
      ),
    )
  }

  // biome-ignore lint/suspicious/noExplicitAny: the JSON of OTLP
  #sent(path: string): any[] {
    return this.received.filter((one) => one.path === path).map(({ text }) => JSON.parse(text))
  }

  close(): Promise<void> {
    this.#server.closeAllConnections()
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }
}

let collector: Collector
beforeEach(async () => {
  collector = new Collector()
  await collector.open()
})
afterEach(() => collector.close())

const telemetry = (more: object = {}) => ({ endpoint: collector.endpoint, headers: {}, sampleRatio: 1, ...more })
const valuesOf = (attributes: Attributes) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

/** Closing sends what is left. */
const close = (gateway: Gateway) => gateway.close()

describe('traces', () => {
  test('each request is a span, and each call of a model a child with the names of the conventions', async () => {
    const { gateway } = await gatewayAfterWork({ telemetry: telemetry() })
    await close(gateway)
    const spans = collector.spans()
    const chats = spans.filter(({ name }) => name === 'POST /api/external/chat/completions')
    expect(chats).toHaveLength(8)
    const calls = spans.filter(({ kind }) => kind === 3)
    expect(calls).toHaveLength(6)
    for (const { parentSpanId, traceId } of calls)
      expect(chats).toContainEqual(expect.objectContaining({ spanId: parentSpanId, traceId }))
    const failover = chats.find(({ attributes }) => valuesOf(attributes)['aigw.attempts'] === 2)
    const tried = calls.filter(({ parentSpanId }) => parentSpanId === failover?.spanId)
    expect(tried.map(({ name }) => name)).toEqual(['chat down', 'chat any'])
    expect(valuesOf(tried[0]?.attributes ?? [])).toMatchObject({ 'error.type': 'server_error' })
    expect(valuesOf(tried[1]?.attributes ?? [])).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'test',
      'gen_ai.request.model': 'any',
      'gen_ai.response.model': 'any',
      'gen_ai.usage.input_tokens': 11,
      'gen_ai.usage.output_tokens': 5,
    })
    expect(valuesOf(failover?.attributes ?? [])).toMatchObject({
      'http.request.method': 'POST',
      'http.route': '/api/external/chat/completions',
      'http.response.status_code': 200,
      'aigw.outcome': 'success',
    })
  })

  test("a client's trace continues at the gateway and at the provider, without its state", async () => {
    const gateway = await startGateway({ telemetry: telemetry() })
    const traceId = '0af7651916cd43dd8448eb211c80319c'
    const headers = {
      traceparent: `00-${traceId}-b7ad6b7169203331-01`,
      tracestate: 'vendor=private',
      baggage: 'user=ada',
    }
    await gateway.chat({ prompt: 'hi' }, { headers })
    const sent = gateway.upstream.requests.at(-1)?.headers ?? {}
    await close(gateway)
    const [server, call] = [
      collector.spans().find(({ kind }) => kind === 2),
      collector.spans().find(({ kind }) => kind === 3),
    ]
    expect([server?.traceId, server?.parentSpanId]).toEqual([traceId, 'b7ad6b7169203331'])
    expect(sent.traceparent).toBe(`00-${traceId}-${call?.spanId}-01`)
    expect([sent.tracestate, sent.baggage]).toEqual([undefined, undefined])
  })

  test('a request that the client does not sample has no spans, but its trace continues', async () => {
    const gateway = await startGateway({ telemetry: telemetry() })
    const traceId = '0af7651916cd43dd8448eb211c80319c'
    await gateway.chat({ prompt: 'hi' }, { headers: { traceparent: `00-${traceId}-b7ad6b7169203331-00` } })
    expect(gateway.upstream.requests.at(-1)?.headers.traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`))
    await close(gateway)
    expect(collector.spans()).toEqual([])
  })

  test('sample_ratio 0 sends no spans of own traces', async () => {
    const gateway = await startGateway({ telemetry: telemetry({ sampleRatio: 0 }) })
    await gateway.chat({ prompt: 'hi' })
    await close(gateway)
    expect(collector.spans()).toEqual([])
  })

  test('contain no content, and no tenant unless the operator asks for it', async () => {
    const { gateway, tenantId, userId, keyId } = await gatewayAfterWork({ telemetry: telemetry() })
    await close(gateway)
    const text = collector.received.map((one) => one.text).join()
    for (const part of [...SECRET_TEXT.split(' '), 'Hello', 'ghp_', tenantId, userId, keyId, '127.0.0.1'])
      expect([part, text.includes(part)]).toEqual([part, false])
    const named = await gatewayAfterWork({ telemetry: telemetry(), metrics: { tenantLabel: true } })
    await close(named.gateway)
    expect(collector.received.map((one) => one.text).join()).toContain(named.tenantId)
  })
})

test('metrics have the names of the conventions and exact counts', async () => {
  const { gateway } = await gatewayAfterWork({ telemetry: telemetry({ headers: { 'x-collector': 'secret-1' } }) })
  await close(gateway)
  const point = (name: string, labels: object) => {
    const points = collector.metrics().find((metric) => metric.name === name)?.histogram.dataPoints ?? []
    return points
      .filter(({ attributes }) => Object.entries(labels).every(([key, is]) => valuesOf(attributes)[key] === is))
      .reduce((sum, { count }) => sum + Number(count), 0)
  }
  expect(point('http.server.request.duration', { 'http.route': '/api/external/chat/completions' })).toBe(8)
  expect(point('gen_ai.client.operation.duration', { 'gen_ai.operation.name': 'chat' })).toBe(6)
  expect(point('gen_ai.client.operation.duration', { 'error.type': 'server_error' })).toBe(2)
  expect(point('gen_ai.client.token.usage', { 'gen_ai.token.type': 'input' })).toBe(4)
  expect(point('gen_ai.server.time_to_first_token', { 'gen_ai.request.model': 'test/any' })).toBe(4)
  expect(collector.received.map(({ headers }) => headers['x-collector'])).toContain('secret-1')
})

test('a collector that rejects everything affects no request and no shutdown', async () => {
  collector.status = 400
  const { gateway } = await gatewayAfterWork({ telemetry: telemetry() })
  await close(gateway)
  expect(gateway.log.filter(({ message }) => message === 'telemetry could not be sent').length).toBeGreaterThan(0)
})

test('without an endpoint, a call carries no trace', async () => {
  const gateway = await startGateway()
  await gateway.chat(
    { prompt: 'hi' },
    { headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } },
  )
  expect(gateway.upstream.requests.at(-1)?.headers.traceparent).toBeUndefined()
})
