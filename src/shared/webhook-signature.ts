import { createHmac, timingSafeEqual } from 'node:crypto'

/** The result of a check. `ageSeconds` is negative for a timestamp ahead of `now`. */
export type SignatureVerdict =
  | { valid: true; timestamp: number; ageSeconds: number }
  /** The header is malformed, and `message` describes the fault. */
  | { valid: false; reason: 'malformed_header'; message: string }
  | { valid: false; reason: 'signature_mismatch' }
  /** The signature is valid, so the body is authentic. But the timestamp is outside the tolerance. */
  | { valid: false; reason: 'timestamp_outside_tolerance'; timestamp: number; ageSeconds: number }

export type SignatureWindow = {
  /** Maximum difference between the timestamp and `now` in seconds, in both directions, inclusive. */
  toleranceSeconds: number
  /** Unix seconds. */
  now: number
}

/**
 * Returns the `X-Service-Signature` header of a body (docs/webhooks.md): `t=<unix seconds>,v1=<hex>`. It contains one
 * `v1` for each secret, in the order of the secrets. The key is the whole `whsec_…` text in UTF-8.
 */
export function sign(rawBody: string | Uint8Array, secrets: readonly string[], timestamp: number): string {
  return secrets.reduce((header, secret) => `${header},v1=${hmac(secret, timestamp, rawBody).hex()}`, `t=${timestamp}`)
}

/**
 * Checks the header against the raw body. Do not pass a body that was parsed and serialised again. One match between
 * any `v1` and any secret suffices. The signature is checked in constant time, and before the timestamp.
 */
export function verify(
  rawBody: string | Uint8Array,
  header: string | null | undefined,
  secrets: readonly string[],
  { toleranceSeconds, now }: SignatureWindow,
): SignatureVerdict {
  const parsed = parseHeader(header ?? '')
  if (typeof parsed === 'string') return { valid: false, reason: 'malformed_header', message: parsed }
  const { timestamp, signatures } = parsed
  // Ignores empty secrets: with an empty key, anyone could create a valid signature.
  const usable = secrets.filter((secret) => secret !== '')
  const expected = usable.map((secret) => hmac(secret, timestamp, rawBody).bytes())
  // Compares every pair, because otherwise the run time would reveal which pair matched.
  const matches = expected.flatMap((right) => signatures.map((given) => timingSafeEqual(right, given)))
  if (!matches.includes(true)) return { valid: false, reason: 'signature_mismatch' }
  const ageSeconds = now - timestamp
  if (Math.abs(ageSeconds) <= toleranceSeconds) return { valid: true, timestamp, ageSeconds }
  return { valid: false, reason: 'timestamp_outside_tolerance', timestamp, ageSeconds }
}

function hmac(secret: string, timestamp: number, rawBody: string | Uint8Array) {
  const digest = createHmac('sha256', secret).update(`${timestamp}.`).update(rawBody)
  return { hex: () => digest.digest('hex'), bytes: () => digest.digest() }
}

/** Matches whole numbers without sign or leading zero that a double can represent exactly. */
const TIMESTAMP = /^(0|[1-9]\d{0,14})$/
/** SHA-256 in lower-case hex. */
const SIGNATURE = /^[0-9a-f]{64}$/

/**
 * Parses the header. If the header is malformed, returns the fault instead. Unknown names are ignored, and `v1` may be
 * repeated.
 */
function parseHeader(header: string): { timestamp: number; signatures: Buffer[] } | string {
  if (header === '') return 'the signature header is empty'
  const times: string[] = []
  const signatures: Buffer[] = []
  for (const part of header.split(',')) {
    const at = part.indexOf('=')
    const [name, value] = [part.slice(0, Math.max(at, 0)), part.slice(at + 1)]
    if (name === 't') times.push(value)
    else if (name === 'v1' && SIGNATURE.test(value)) signatures.push(Buffer.from(value, 'hex'))
  }
  const [time, ...others] = times
  if (time === undefined) return 'it has no timestamp (t=…)'
  if (others.length > 0) return 'it has more than one timestamp (t=…)'
  if (!TIMESTAMP.test(time)) return 'its timestamp (t=…) is not a whole number of Unix seconds'
  if (signatures.length === 0) return 'it has no signature of 64 hex digits (v1=…)'
  return { timestamp: Number(time), signatures }
}
