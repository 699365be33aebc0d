// Verifies X-Service-Signature. Copy this file, or install the package: import { verifyWebhook } from 'aigw/webhooks'.
import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * @param {Buffer} rawBody the unparsed request body
 * @param {string | undefined} header the value of X-Service-Signature
 * @param {(string | undefined)[]} secrets the complete secrets (whsec_…); pass both secrets during a rotation
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
  // `!(… <= …)` also rejects if the tolerance or the time is NaN.
  if (!(Math.abs(now - Number(times[0])) <= tolerance)) return false
  let valid = false
  for (const secret of [secrets].flat()) {
    // Anyone could forge a signature with an empty key.
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
//     await handle(JSON.parse(rawBody))      // deliveries may repeat: deduplicate by X-Service-Delivery
//   })
//
// Express: app.post('/hook', express.raw({ type: 'application/json' }), (req, res) => … verify(req.body, …))
