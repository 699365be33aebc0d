// The receivers of the webhook bench run in this separate process. Each kind of behaviour has its own port. The sender
// writes the current time into each event. A good receiver computes the delay from this time. GET /report on the good
// port responds with {count, p50Ms, p99Ms, maxMs} since the previous report.
import net from 'node:net'

const ok = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
const kinds = {
  good: (socket, text) => {
    if (text.startsWith('GET /report')) return report(socket)
    note(text)
    socket.write(ok)
  },
  silent: () => {},
  slow: (socket) => void setTimeout(() => socket.write(ok), 4_800),
  drip: (socket) => {
    socket.write('HTTP/1.1 500 No\r\nx: ')
    const timer = setInterval(() => socket.write('y'), 500)
    socket.once('close', () => clearInterval(timer))
  },
  failing: (socket) => socket.write('HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nno'),
  resetting: (socket) => socket.resetAndDestroy(),
}

let delaysMs = []
function note(text) {
  const at = /"latencyMs":(\d+)/.exec(text)
  if (at) delaysMs.push(Date.now() - Number(at[1]))
}

function report(socket) {
  const sorted = delaysMs.sort((a, b) => a - b)
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
  const body = JSON.stringify({ count: sorted.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: sorted.at(-1) })
  delaysMs = []
  socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
}

/** Implements only the necessary part of HTTP: sequential requests with a content-length. */
function serve(react) {
  return net.createServer({ noDelay: true }, (socket) => {
    let text = ''
    socket.on('error', () => socket.destroy())
    socket.on('data', (data) => {
      text += data.latin1Slice()
      for (;;) {
        const headEnd = text.indexOf('\r\n\r\n')
        if (headEnd < 0) return
        const length = headEnd + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1] ?? 0)
        if (text.length < length) return
        const request = text.slice(0, length)
        text = text.slice(length)
        react(socket, request)
      }
    })
  })
}

const urls = {}
for (const [kind, react] of Object.entries(kinds)) {
  const server = serve(react)
  await new Promise((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, resolve))
  urls[kind] = `http://127.0.0.1:${server.address().port}`
}
console.log(JSON.stringify({ msg: 'listening', url: JSON.stringify(urls) }))
process.on('SIGTERM', () => process.exit(0))
