// Verifies X-Service-Signature. Copy this file, or install the package: import { verifyWebhook } from 'aigw/webhooks'.
import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * @param {Buffer} rawBody the bytes as they came, before anything parsed them
 * @param {string | undefined} header the value of X-Service-Signature
 * @param {(string | undefined)[]} secrets the whole whsec_…; two of them while you rotate
 * @returns {boolean}
 */
export function verify(rawBody, header, secrets, tolerance = 300, now = Math.floor(Date.now() / 1000)) {
  const parts = (header ?? '').split(',').map((part) => {
    const at = part.indexOf('=')
    return at < 0 ? ['', ''] : [part.slice(0, at), part.slice(at + 1)]
  })
  const times = parts.filter(([name]) => name === 't').map(([, value]) => value)
  const given = parts.filter(([name, value]) => name === 'v1' && /^[0-9a-f]{64}$/.test(value)).map(([, value]) => value)
  if (times.length !== 1 || !/^(0|[1-9][0-9]{0,14})$/.test(times[0])) return false
  // Asked this way round, so that a tolerance or a time that is no number lets nothing pass.
  if (!(Math.abs(now - Number(times[0])) <= tolerance)) return false
  let valid = false
  for (const secret of [secrets].flat()) {
    // With an empty key everybody could sign.
    if (typeof secret !== 'string' || secret === '') continue
    const expected = createHmac('sha256', secret).update(`${times[0]}.`).update(rawBody).digest()
    for (const value of given) if (timingSafeEqual(expected, Buffer.from(value, 'hex'))) valid = true
  }
  return valid
}

// node:http
//
//   createServer(async (request, response) => {
//     const chunks = []
//     for await (const chunk of request) chunks.push(chunk)
//     const rawBody = Buffer.concat(chunks)
//     if (!verify(rawBody, request.headers['x-service-signature'], [process.env.WEBHOOK_SECRET])) {
//       response.writeHead(401).end()
//       return
//     }
//     response.writeHead(204).end()          // acknowledge first, within 5 s
//     await handle(JSON.parse(rawBody))      // deliveries may come twice: remember X-Service-Delivery
//   })
//
// Express: app.post('/hook', express.raw({ type: 'application/json' }), (req, res) => … verify(req.body, …))
