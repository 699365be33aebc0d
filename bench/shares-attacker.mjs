// The attacker of the bench `shares`, in a process of its own. It keeps `count` requests in flight, spread over its
// keys, and replaces each one that ends. Prints a line when all have been sent once. Argument: JSON
// {url, keys, count, attack}.
import http from 'node:http'
import net from 'node:net'

const { url, keys, count, attack } = JSON.parse(process.argv[2])
const { hostname, port } = new URL(url)
const path = '/v1/chat/completions'
const body = JSON.stringify({
  ...{ model: 'mock/mock-model', stream: true },
  messages: [{ role: 'user', content: 'Hello' }],
})
const statuses = {}
const countStatus = (status) => {
  statuses[status] = (statuses[status] ?? 0) + 1
}
/** Pause before a rejected request is replaced, as a client that ignores Retry-After would do. */
const PAUSE_MS = 100

const attacks = {
  /** Streams that the model sends slowly. */
  streams(_, key, ended) {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const request = http.request(url + path, { method: 'POST', headers, agent: false }, (response) => {
      countStatus(response.statusCode)
      response.resume().once('close', ended)
    })
    request.once('error', () => ended()).end(body)
  },
  /** Requests that never send their body. */
  heads(nth, key, ended) {
    // Closed connections block their port for a minute, so the connections come from many addresses.
    const localAddress = `127.0.0.${2 + (nth % 250)}`
    const socket = net.connect({ host: hostname, port: Number(port), localAddress }, () => {
      const type = 'content-type: application/json\r\ncontent-length: 1000\r\n'
      socket.write(`POST ${path} HTTP/1.1\r\nhost: aigw\r\nauthorization: Bearer ${key}\r\n${type}\r\n`)
    })
    socket.once('data', (data) => countStatus(data.toString('latin1').slice(9, 12)))
    socket.on('error', () => {}).once('close', ended)
  },
}

function send(nth) {
  attacks[attack](nth, keys[nth % keys.length], () => setTimeout(send, PAUSE_MS, nth))
}

for (let nth = 0; nth < count; nth++) {
  send(nth)
  if (nth % 50 === 49) await new Promise((resolve) => setTimeout(resolve, 10))
}
console.log(JSON.stringify({ msg: 'listening', url: '' }))
process.on('SIGTERM', () => {
  console.error(JSON.stringify(statuses))
  process.exit(0)
})
