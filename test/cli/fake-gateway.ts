import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Busboy } from '@fastify/busboy'

export const KEY = `sk-${'a1'.repeat(32)}`

export type Received = {
  method: string
  path: string
  headers: IncomingMessage['headers']
  body: Buffer
  /** The JSON of the body; undefined when it is none. */
  json: unknown
}

export type Script = (request: Received, response: ServerResponse) => void | Promise<void>

export type FakeGateway = {
  url: string
  requests: Received[]
  /** Answers the next requests to this route, e.g. `GET /api/external/whoami`; the last script stays. */
  on(route: string, ...scripts: Script[]): void
  close(): Promise<void>
}

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Script =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'req-fake', ...headers })
    response.end(JSON.stringify(body))
  }

export const flatError = (status: number, error: string, message: string, extra: object = {}): Script =>
  json(status, { success: false, error, message, request_id: 'req-fake', ...extra })

export const structuredError = (status: number, code: string, message: string): Script =>
  json(status, { success: false, error: { code, message }, request_id: 'req-fake' })

export const WHOAMI = {
  success: true,
  user: { id: 'b'.repeat(24), name: 'admin', email: 'admin@localhost', role: 'admin' },
  tenant: { id: 'c'.repeat(24), name: 'default' },
  api_key: { id: 'd'.repeat(24), name: 'bootstrap', operator: true },
}

export const indexNamed = (name: string, description = '') => ({
  id: '1'.repeat(24),
  name,
  description,
  type: 'general',
  isActive: true,
  documentCount: 3,
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
})

export const METADATA = {
  conversation_id: 'conv-1',
  index_used: 'handbook',
  smltp_policy_used: 'internal',
  smltp_policy_source: 'default',
  smltp_policy_hash: null,
  prompt_shield_policy: null,
  served_model: 'local/extract',
  requested_model: 'local/extract',
  rag_enabled: true,
  documents_retrieved: 2,
  sources: [{ source: 'leave.md', score: 0.91 }],
}

export const envelope = (content: string) => ({
  success: true,
  id: 'req-1',
  object: 'chat.completion',
  created: 1_767_225_600,
  model: 'local/extract',
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 412, completion_tokens: 38, total_tokens: 450, input_tokens: 412, output_tokens: 38 },
  metadata: METADATA,
})

const { choices: _, usage: __, ...HEAD } = envelope('')
export const metadataFrame = (metadata: object = METADATA) => ({ type: 'metadata', data: { ...HEAD, metadata } })
export const chunkFrame = (content: string, finish_reason: string | null = null) => ({
  type: 'chunk',
  data: {
    id: 'req-1',
    object: 'chat.completion.chunk',
    model: 'local/extract',
    choices: [{ index: 0, delta: { content }, finish_reason }],
  },
})
export const USAGE_FRAME = {
  type: 'usage',
  data: { usage: { prompt_tokens: 412, completion_tokens: 38, total_tokens: 450 } },
}
export const ERROR_FRAME = {
  type: 'error',
  data: { error: 'PROVIDER_INTERRUPTED', message: 'the provider hung up', reason: 'server_error', request_id: 'req-9' },
}

export const toEvents = (frames: unknown[], { done = true } = {}): string =>
  frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('') + (done ? 'data: [DONE]\n\n' : '')

/** A stream that is sent at once and closed in order; whether it is complete is up to its text. */
export const stream =
  (events: string): Script =>
  (__, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-request-id': 'req-fake' })
    response.end(events)
  }

/** Streams the text as one chunk, or answers with the envelope, as the request asks. */
export const answer =
  (content: string): Script =>
  (request, response) => {
    const script =
      Reflect.get(Object(request.json), 'stream') === true
        ? stream(toEvents([metadataFrame(), chunkFrame(content), chunkFrame('', 'stop'), USAGE_FRAME]))
        : json(200, envelope(content))
    return script(request, response)
  }

const trained: Script = async (request, response) => {
  const files = await readMultipart(request)
  const documents = files.map(({ name }) => ({ name, status: 'indexed', chunks: 2 }))
  return json(200, trainResult(documents))(request, response)
}

export const trainResult = (documents: object[]) => ({
  success: true,
  message: 'Trained',
  request_id: 'req-fake',
  results: {
    files_processed: documents.length,
    documents_extracted: documents.length,
    documents_indexed: documents.length,
    total_vectors: 0,
    total_chunks: documents.length * 2,
    index_name: 'handbook',
    namespace: 'handbook',
    documents,
  },
})

export const searchResult = (matches: object[]) => ({
  success: true,
  request_id: 'req-fake',
  query: 'q',
  results: { matches, total: matches.length, top_k: 10 },
  index: { name: 'handbook', namespace: 'handbook' },
})

export const MATCH = {
  rank: 1,
  score: 0.91,
  source: 'leave.md',
  content: 'You have 28 days.\nUnused days\tcarry over.',
  metadata: { page: null, chunkIndex: 0, title: null, documentId: '2'.repeat(24) },
}

const DEFAULTS: Record<string, Script> = {
  'GET /api/external/whoami': (request, response) =>
    request.headers.authorization === `Bearer ${KEY}`
      ? json(200, WHOAMI)(request, response)
      : flatError(401, 'Invalid API key', 'The API key is not valid.')(request, response),
  'GET /api/external/health': json(200, { success: true, status: 'healthy', timestamp: 'now', version: '1.1.0' }),
  'GET /livez': json(200, { status: 'ok' }),
  'GET /readyz': json(200, { status: 'ready', checks: { store: true, migrations: true, accepting: true } }),
  'POST /api/external/chat/completions': answer('You have 28 days.'),
  'POST /api/external/indexes': json(201, { success: true, message: 'Created', index: indexNamed('handbook') }),
  'GET /api/external/indexes/all': json(200, {
    success: true,
    indexes: [indexNamed('handbook', 'All about us'), indexNamed('faq')],
    pagination: { page: 1, limit: 50, total: 2, pages: 1 },
  }),
  'POST /api/external/indexes/handbook/train': trained,
  'GET /api/external/indexes/handbook/search': json(200, searchResult([MATCH])),
}

/** Speaks the gateway's wire on a free loopback port; every route can be scripted. */
export async function startFakeGateway(): Promise<FakeGateway> {
  const scripts = new Map<string, Script[]>()
  const requests: Received[] = []
  const server: Server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
    } catch {
      return // The client left while it was sending; the test looks at what came before.
    }
    const [path = ''] = (request.url ?? '').split('?')
    const body = Buffer.concat(chunks)
    const received = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      body,
      json: parse(body),
    }
    requests.push(received)
    const route = `${request.method} ${path}`
    const queue = scripts.get(route) ?? []
    const script = (queue.length > 1 ? queue.shift() : queue[0]) ?? DEFAULTS[route]
    await (script ?? flatError(404, 'Not found', `There is no ${route}.`))(received, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    on: (route, ...list) => void scripts.set(route, list),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

export type UploadedFile = { field: string; name: string; type: string; content: Buffer }

/** The file parts of a multipart request, read by the daemon's own parser. */
export function readMultipart({ headers, body }: Pick<Received, 'headers' | 'body'>): Promise<UploadedFile[]> {
  return new Promise((resolve, reject) => {
    const files: UploadedFile[] = []
    const contentType = headers['content-type'] ?? ''
    const parser = new Busboy({ headers: { 'content-type': contentType }, preservePath: true })
    parser.on('file', (field, content, name, _encoding, type) => {
      const chunks: Buffer[] = []
      content.on('data', (chunk: Buffer) => chunks.push(chunk))
      content.on('end', () => files.push({ field, name, type, content: Buffer.concat(chunks) }))
    })
    parser.on('finish', () => resolve(files))
    parser.on('error', reject)
    parser.end(body)
  })
}
