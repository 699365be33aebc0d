// The baseline of the bench: the minimum work of an AI gateway on Node. It looks up the bearer key in a Map, parses the
// JSON body, forwards it with undici's dispatch and returns the response. It has no billing, storage or guards. Run:
// node bench/bare-proxy.mjs <origin of the upstream>
import http from 'node:http'
import { Pool } from 'undici'

const keys = new Map([['Bearer bench-key', { upstreamAuthorization: 'Bearer sk-upstream' }]])
const pool = new Pool(process.argv[2], {
  connections: null,
  pipelining: 1,
  keepAliveTimeout: 60_000,
  headersTimeout: 60_000,
  bodyTimeout: 60_000,
})

function fail(response, status, message) {
  if (response.headersSent) {
    response.destroy()
    return
  }
  const body = JSON.stringify({ error: { message } })
  response
    .writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
    .end(body)
}

/** Forwards one upstream response to one client. Either the upstream or the client may disconnect first. */
class PassThrough {
  constructor(response) {
    this.response = response
    this.controller = undefined
    response.on('close', () => {
      if (!response.writableFinished) this.controller?.abort(new Error('client gone'))
    })
  }
  onRequestStart(controller) {
    this.controller = controller
    if (this.response.destroyed) controller.abort(new Error('client gone'))
  }
  onResponseStart(_controller, status, headers) {
    if (status < 200) return
    const passed = { 'content-type': headers['content-type'] }
    if (headers['content-length']) passed['content-length'] = headers['content-length']
    this.response.writeHead(status, passed)
  }
  onResponseData(controller, data) {
    if (this.response.write(data)) return
    controller.pause()
    this.response.once('drain', () => controller.resume())
  }
  onResponseEnd() {
    this.response.end()
  }
  onResponseError(_controller, error) {
    fail(this.response, 502, error.message)
  }
}

const server = http.createServer((request, response) => {
  const key = keys.get(request.headers.authorization)
  if (!key) {
    fail(response, 401, 'unknown key')
    return
  }
  const parts = []
  request.on('data', (data) => parts.push(data))
  request.on('end', () => {
    let body
    try {
      body = JSON.parse((parts.length === 1 ? parts[0] : Buffer.concat(parts)).toString())
    } catch {
      fail(response, 400, 'the body is not JSON')
      return
    }
    if (typeof body.model !== 'string') {
      fail(response, 400, 'model is missing')
      return
    }
    pool.dispatch(
      {
        method: 'POST',
        path: request.url,
        headers: { authorization: key.upstreamAuthorization, 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(body)),
      },
      new PassThrough(response),
    )
  })
})
server.keepAliveTimeout = 120_000
server.requestTimeout = 0
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  console.log(JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${server.address().port}` }))
})
process.on('SIGTERM', () => process.exit(0))
