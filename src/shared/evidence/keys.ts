import { createPublicKey, hash, type KeyObject, verify } from 'node:crypto'

/** A current or retired key that signs evidence. Times are ISO 8601. `retiredAt` is null for the current key. */
export type PublishedKey = { kid: string; name: string; publicKey: Buffer; createdAt: string; retiredAt: string | null }

/**
 * A signature is valid only within the validity window of its key, widened by this time on both sides: clocks of
 * daemons and witnesses differ, and another daemon may use a retired key for up to two seconds.
 */
export const KEY_WINDOW_SLACK_MS = 300_000

/** The times at which a key may sign, in milliseconds since 1970. */
export type KeyWindow = { fromMs: number; untilMs: number }

/** Returns the validity window of a key: from its creation to its retirement. */
export const windowOf = ({ createdAt, retiredAt }: Pick<PublishedKey, 'createdAt' | 'retiredAt'>): KeyWindow => ({
  fromMs: timeOf(createdAt) - KEY_WINDOW_SLACK_MS,
  untilMs: retiredAt === null ? Number.POSITIVE_INFINITY : timeOf(retiredAt) + KEY_WINDOW_SLACK_MS,
})

/**
 * Compares two keys by the order in which a gateway used them: negative if the first key is older. The time of the
 * retirement decides, because it never decreases from key to key. The time of the creation is earlier than that of the
 * previous key if the clock was corrected between them. So it decides only between keys without a retirement.
 */
export function compareKeys(one: PublishedKey, other: PublishedKey): number {
  const [end, otherEnd] = [windowOf(one).untilMs, windowOf(other).untilMs]
  return end === otherEnd ? timeOf(one.createdAt) - timeOf(other.createdAt) : end - otherEnd
}

/**
 * Returns the window in which an entry must have been written if this key signed it. The first key of a store also
 * signs the entries that were written before there were keys, so the window of the oldest key has no beginning.
 */
export function entryWindowOf(key: PublishedKey, keys: readonly PublishedKey[]): KeyWindow {
  const window = windowOf(key)
  const isOldest = keys.every((other) => compareKeys(key, other) <= 0)
  return isOldest ? { ...window, fromMs: Number.NEGATIVE_INFINITY } : window
}

/** Whether a time is in the window. A time that is not a number is not. */
export const isWithin = (timeMs: number, { fromMs, untilMs }: KeyWindow): boolean =>
  timeMs >= fromMs && timeMs <= untilMs

/** Returns a reason if a key was not valid at the time of what it signed. Returns undefined if it was. */
export function validityProblem(kid: string, keys: readonly PublishedKey[], at: string): string | undefined {
  const key = keys.find((known) => known.kid === kid)
  const isValid = key !== undefined && isWithin(timeOf(at), entryWindowOf(key, keys))
  return isValid ? undefined : `is signed with the key ${kid}, which was not valid at ${at}`
}

/** The error for an invalid key set. */
export class KeySetError extends Error {
  override name = 'KeySetError'
}

/** Returns the thumbprint of an Ed25519 key (RFC 7638, RFC 8037), base64url. */
export const keyIdOf = (publicKey: Buffer): string =>
  hash('sha256', `{"crv":"Ed25519","kty":"OKP","x":"${publicKey.toString('base64url')}"}`, 'base64url')

/**
 * Returns the response of `/.well-known/aigw-keys.json` (RFC 7517, with the members name, status, created_at and
 * retired_at).
 */
export const toKeySet = (keys: readonly PublishedKey[]) => ({
  keys: keys.map(({ kid, name, publicKey, createdAt, retiredAt }) => ({
    kty: 'OKP',
    crv: 'Ed25519',
    alg: 'EdDSA',
    use: 'sig',
    kid,
    x: publicKey.toString('base64url'),
    name,
    status: retiredAt === null ? 'active' : 'retired',
    created_at: createdAt,
    retired_at: retiredAt,
  })),
})

/**
 * Parses the response of `/.well-known/aigw-keys.json`. Throws KeySetError if the response is invalid, contains no
 * key or one key twice, or if the `kid` of a key is not the key's thumbprint. Verifiers would disagree about a key with
 * two windows.
 */
export function parseKeySet(json: unknown): PublishedKey[] {
  const keys = isObject(json) ? json.keys : undefined
  if (!Array.isArray(keys) || keys.length === 0) throw new KeySetError('a key set must contain a list of keys')
  const parsed = keys.map(parseKey)
  const twice = parsed.find(({ kid }, at) => parsed.findIndex((other) => other.kid === kid) < at)
  if (twice !== undefined) throw new KeySetError(`the key ${twice.kid} is there twice`)
  return parsed
}

function parseKey(json: unknown): PublishedKey {
  if (!isObject(json) || json.kty !== 'OKP' || json.crv !== 'Ed25519') throw new KeySetError('a key is not Ed25519')
  const { kid, x, name, created_at: createdAt, retired_at: retiredAt = null } = json
  const publicKey = Buffer.from(typeof x === 'string' ? x : '', 'base64url')
  if (publicKey.length !== 32 || publicKey.toString('base64url') !== x) throw new KeySetError('a key is not 32 bytes')
  if (typeof kid !== 'string' || kid !== keyIdOf(publicKey))
    throw new KeySetError('a kid is not the thumbprint of its key')
  if (!isStrongPoint(publicKey)) throw new KeySetError(`the key ${kid} is not a canonical point of large order`)
  if (!isSignerName(name)) throw new KeySetError(`the key ${kid} has no valid signer name`)
  if (!isTime(createdAt) || (retiredAt !== null && !isTime(retiredAt))) {
    throw new KeySetError(`the key ${kid} has no valid times`)
  }
  return { kid, name, publicKey, createdAt, retiredAt }
}

/** The only notation of times in evidence: ISO 8601 in UTC with milliseconds. Verifiers must agree about every text. */
const TIME = /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Returns the milliseconds since 1970 of a time in evidence. Returns NaN for any other notation, or no such time. */
export function timeOf(text: unknown): number {
  const ms = typeof text === 'string' && TIME.test(text) ? Date.parse(text) : Number.NaN
  return !Number.isNaN(ms) && new Date(ms).toISOString() === text ? ms : Number.NaN
}

const isTime = (value: unknown): value is string => !Number.isNaN(timeOf(value))

/** The prime of the field of Ed25519 (RFC 8032, section 5.1). */
const P = 2n ** 255n - 19n
/** The y coordinate of the points of order 8. Its negative is the other one. */
const Y_OF_ORDER_8 = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n
/** The y coordinates of all points whose order divides 8. */
const WEAK_Y: readonly bigint[] = [0n, 1n, P - 1n, Y_OF_ORDER_8, P - Y_OF_ORDER_8]

/**
 * Whether a key has its canonical encoding and is not of small order. Under a key of small order, one signature fits
 * many texts. Implementations of Ed25519 disagree about both kinds of keys.
 */
export function isStrongPoint(publicKey: Buffer): boolean {
  const y = BigInt(`0x${Buffer.from(publicKey).reverse().toString('hex')}`) & (2n ** 255n - 1n)
  return y < P && !WEAK_Y.includes(y)
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Whether the value is an object with exactly these members. Readers would think that further members are signed, but
 * the hashes do not cover them.
 */
export const hasOnly = (value: unknown, names: readonly string[]): value is Record<string, unknown> =>
  isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))

/**
 * Whether the value is a valid signer name in a signature line (C2SP signed-note). A name must not be empty and must
 * not contain white space or a plus.
 */
export const isSignerName = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && !/[\s+\p{Cc}]/u.test(value)

// Key objects are cached, because creating a key object would take a large part of each verification's time.
const keyObjects = new WeakMap<object, KeyObject>()

/** The public half of an Ed25519 key, 32 bytes. */
type PublicKey = Pick<PublishedKey, 'publicKey'>

/** Whether the key signed the UTF-8 bytes of this text with Ed25519 (RFC 8032). */
export const isSignedBy = (key: PublicKey, text: string, signature: Buffer): boolean =>
  verify(null, Buffer.from(text), keyObjectOf(key), signature)

/** The asynchronous variant of `isSignedBy`. It runs on libuv's thread pool. */
export function checkSignature(key: PublicKey, text: string, signature: Buffer, done: (holds: boolean) => void): void {
  verify(null, Buffer.from(text), keyObjectOf(key), signature, (error, holds) => done(error === null && holds))
}

function keyObjectOf(key: PublicKey): KeyObject {
  const known = keyObjects.get(key)
  if (known !== undefined) return known
  const x = key.publicKey.toString('base64url')
  const made = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  keyObjects.set(key, made)
  return made
}
