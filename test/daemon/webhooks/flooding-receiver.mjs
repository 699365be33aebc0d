// A receiver whose response has an endless part, selected by its argument; prints its port.
import { createServer } from 'node:net'

const hint = Buffer.from('HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n'.repeat(1_500))
const block = Buffer.alloc(65_536, 'y')
const kinds = {
  body: ['HTTP/1.1 500 No\r\ncontent-length: 10000000000\r\n\r\n', block],
  reason: ['HTTP/1.1 500 ', block],
  hints: ['', hint],
  chunk: ['HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n1;', block],
}
const [first, rest] = kinds[process.argv[2]]

const server = createServer((socket) => {
  const more = () => {
    while (!socket.destroyed && socket.write(rest));
  }
  socket.on('error', () => {})
  socket.once('data', () => {
    socket.on('drain', more)
    if (first !== '') socket.write(first)
    more()
  })
})
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`))
