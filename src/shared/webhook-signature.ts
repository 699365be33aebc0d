import { createHmac, timingSafeEqual } from 'node:crypto'

/** Whom a body may have come from, or why that is not known. `ageSeconds` is negative for a timestamp ahead of `now`. */
export type SignatureVerdict =
  | { valid: true; timestamp: number; ageSeconds: number }
  /** The header cannot be read: `message` says what is wrong with it. */
  | { valid: false; reason: 'malformed_header'; message: string }
  | { valid: false; reason: 'signature_mismatch' }
  /** The signature itself is right, so the body is what was sent, at another time. */
  | { valid: false; reason: 'timestamp_outside_tolerance'; timestamp: number; ageSeconds: number }

export type SignatureWindow = {
  /** Seconds that the timestamp may be away from `now`, in both directions; that very difference still counts. */
  toleranceSeconds: number
  /** Unix seconds. */
  now: number
}

/**
 * The `X-Service-Signature` header of a body (spec: Webhook signing): `t=<unix seconds>,v1=<hex>`, with one `v1` for each
 * secret, in their order. The key is the whole `whsec_…` text in UTF-8.
 */
export function sign(rawBody: string | Uint8Array, secrets: readonly string[], timestamp: number): string {
  return secrets.reduce((header, secret) => `${header},v1=${hmac(secret, timestamp, rawBody).hex()}`, `t=${timestamp}`)
}

/**
 * Checks the header against the raw body, before anything has parsed it: any `v1` of any secret will do. The signature is
 * looked at before the timestamp, in constant time.
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
  // An empty key would let everybody sign.
  const usable = secrets.filter((secret) => secret !== '')
  const expected = usable.map((secret) => hmac(secret, timestamp, rawBody).bytes())
  // Every pair is compared, so that the time taken does not tell which one was right.
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

/** Whole numbers as they are written: no sign, no leading zero, none that a double would round. */
const TIMESTAMP = /^(0|[1-9]\d{0,14})$/
/** SHA-256 in lower case, as it is sent. */
const SIGNATURE = /^[0-9a-f]{64}$/

/** What the header says, or what is wrong with it. Names that we do not know are left alone; `v1` may stand repeatedly. */
function parseHeader(header: string): { timestamp: number; signatures: Buffer[] } | string {
  if (header === '') return 'there is no signature'
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
