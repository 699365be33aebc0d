// The mock upstream of the benchmarks: OpenAI chat completions in its own process. It implements only the necessary
// part of HTTP/1.1 on node:net, so it uses far less CPU than any gateway.
//
// POST …/chat/completions responds with a fixed JSON document of about 1 KB or, with "stream":true, with a stream of
// content chunks. Each chunk contains "@@<CLOCK_MONOTONIC ns, in letters>@@". From this time, the load generator
// detects lost chunks and measures the delay of each received chunk. POST /shape {"chunks": 50, "intervalMs": 20} sets
// the shape of later streams.
import net from 'node:net'

const shape = { chunks: 50, intervalMs: 20 }

const sentence = 'The quick brown fox jumps over the lazy dog and keeps running through the field. '
const answer = JSON.stringify({
  id: 'chatcmpl-mock0000000000000000000000',
  object: 'chat.completion',
  created: 1700000000,
  model: 'mock-model',
  system_fingerprint: 'fp_mock',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: sentence.repeat(8).slice(0, 620), refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: {
    prompt_tokens: 321,
    completion_tokens: 123,
    total_tokens: 444,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  },
})

const json = (body) =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nx-request-id: req_mock\r\n\r\n${body}`,
  )
const jsonAnswer = json(answer)

const streamHead =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\nx-request-id: req_mock\r\n\r\n'
const httpChunk = (text) => `${text.length.toString(16)}\r\n${text}\r\n`
const eventStart =
  'data: {"id":"chatcmpl-mock0000000000000000000000","object":"chat.completion.chunk","created":1700000000,"model":"mock-model",'
const choice = (delta, finishReason) =>
  `${eventStart}"choices":[{"index":0,"delta":${delta},"finish_reason":${finishReason}}]}\n\n`
const roleEvent = choice('{"role":"assistant","content":""}', 'null')
/**
 * Returns the time in letters, from a for 0 to j for 9. If the time were written in digits, guards would treat it as a
 * possible phone number.
 */
function stamp() {
  let letters = ''
  for (const digit of String(process.hrtime.bigint())) letters += 'abcdefghij'[digit]
  return letters
}
const contentEvent = () => choice(`{"content":" token text @@${stamp()}@@"}`, 'null')
const streamEnd = `${httpChunk(
  `${choice('{}', '"stop"')}${eventStart}"choices":[],"usage":{"prompt_tokens":321,"completion_tokens":123,"total_tokens":444}}\n\ndata: [DONE]\n\n`,
)}0\r\n\r\n`

/** Sends one stream at the pace of `shape`. Stops if the client disconnects. */
function stream(socket) {
  const { chunks, intervalMs } = shape
  let sent = 0
  let timer
  const stop = () => clearTimeout(timer)
  const send = () => {
    if (sent === chunks) {
      socket.removeListener('close', stop)
      socket.write(streamEnd)
      return
    }
    socket.write(sent === 0 ? streamHead + httpChunk(roleEvent + contentEvent()) : httpChunk(contentEvent()))
    sent++
    timer = setTimeout(send, intervalMs)
  }
  socket.once('close', stop)
  send()
}

function respond(socket, head, body) {
  if (head.startsWith('POST /shape ')) {
    Object.assign(shape, JSON.parse(body.toString()))
    socket.write(json(JSON.stringify(shape)))
  } else if (body.includes('"stream":true')) stream(socket)
  else socket.write(jsonAnswer)
}

/** Returns the chunked request body that starts at `at`, or undefined if it is incomplete. */
function readChunked(buffer, at) {
  const parts = []
  for (let from = at; ; ) {
    const lineEnd = buffer.indexOf('\r\n', from)
    if (lineEnd < 0) return undefined
    const bytes = Number.parseInt(buffer.latin1Slice(from, lineEnd), 16)
    const next = lineEnd + 2 + bytes + 2
    if (next > buffer.length) return undefined
    if (bytes === 0) return { body: Buffer.concat(parts), next }
    parts.push(buffer.subarray(lineEnd + 2, lineEnd + 2 + bytes))
    from = next
  }
}

/** Returns the first request in the buffer, or undefined if it is incomplete. */
function readRequest(buffer) {
  const headEnd = buffer.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const head = buffer.latin1Slice(0, headEnd)
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const chunked = readChunked(buffer, headEnd + 4)
    return chunked && { head, ...chunked }
  }
  const next = headEnd + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  return next > buffer.length ? undefined : { head, body: buffer.subarray(headEnd + 4, next), next }
}

const server = net.createServer({ noDelay: true }, (socket) => {
  let buffer = Buffer.alloc(0)
  socket.on('data', (data) => {
    buffer = buffer.length === 0 ? data : Buffer.concat([buffer, data])
    for (let request = readRequest(buffer); request; request = readRequest(buffer)) {
      buffer = buffer.subarray(request.next)
      respond(socket, request.head, request.body)
    }
  })
  socket.on('error', () => socket.destroy())
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  console.log(JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${server.address().port}` }))
})
process.on('SIGTERM', () => process.exit(0))
