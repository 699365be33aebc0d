import { hash, randomBytes, randomFillSync, randomUUID } from 'node:crypto'

// One random part per process and a counter per id, so what one daemon makes sorts by time and never collides.
const processPart = randomBytes(5).toString('hex')
let counter = randomBytes(3).readUIntBE(0, 3)

const HEX_OF_BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const hexOfByte = (bits: number): string => HEX_OF_BYTES[bits & 0xff] as string
/** 6 and 8 hex characters. A request makes a handful of ids, and `toString(16)` costs ten times as much. */
const hex24 = (bits: number): string => hexOfByte(bits >>> 16) + hexOfByte(bits >>> 8) + hexOfByte(bits)
const hex32 = (bits: number): string => hexOfByte(bits >>> 24) + hex24(bits)
const hexOfSeconds = (ms: number): string => hex32(Math.floor(ms / 1000))

/**
 * 24 hex characters: 4 bytes of seconds, 5 of process, 3 of counter. Unique and time-ordered, but anyone who sees two knows how
 * many were made in between. For what administrators make.
 */
export function newId(now: number = Date.now()): string {
  counter = (counter + 1) & 0xffffff
  return hexOfSeconds(now) + processPart + hex24(counter)
}

/** Filled at once: a call of the system's random source for each id would cost more than the rest of it. */
const randomPool = new Uint32Array(1024)
let poolAt = randomPool.length

/** 8 random bytes, hex. */
function randomHex(): string {
  if (poolAt === randomPool.length) {
    randomFillSync(randomPool)
    poolAt = 0
  }
  return hex32(randomPool[poolAt++] as number) + hex32(randomPool[poolAt++] as number)
}

/**
 * 24 hex characters: 4 bytes of seconds, so that new rows stand together in an index, and 8 random ones. Nobody guesses one, and
 * those who see many learn nothing of how many there are. At 10,000 a second, two are the same in about 10,000 years.
 */
const newOpaqueId = (now: number = Date.now()): string => hexOfSeconds(now) + randomHex()

/** `req-` and 24 hex characters, of which 16 are random. */
export const newRequestId = (now?: number): string => `req-${newOpaqueId(now)}`

/** `conv-` and 24 hex characters, of which 16 are random. */
export const newConversationId = (now?: number): string => `conv-${newOpaqueId(now)}`

/** Of entries that are signed together: 32 hex characters, 4 bytes of seconds and 12 that nobody can guess. */
export const newCommitId = (now: number): string => hexOfSeconds(now) + randomBytes(12).toString('hex')

/** `trx-` and a UUID: what guards found in one request. */
export const newTraceId = (): string => `trx-${randomUUID()}`

/**
 * `jti-` and a UUID of version 7 (RFC 9562 §5.7): what the evidence of one request is called. It begins with the time; its 74
 * random bits are the system's, so nobody guesses one.
 */
export function newBundleId(now: number = Date.now()): string {
  const milliseconds = hex24(Math.floor(now / 0x100000000)).slice(2) + hex32(now)
  // A UUID of version 4 is random but for its version and variant. The variant stays, the version is the 15th character.
  const random = randomUUID().slice(15)
  return `jti-${milliseconds.slice(0, 8)}-${milliseconds.slice(8)}-7${random}`
}

/** An API key: `sk-` and 64 hex characters from the system's random source. */
export const newApiKey = (): string => `sk-${randomBytes(32).toString('hex')}`

/** What is stored of an API key: its SHA-256, hex. */
export const secretHash = (key: string): string => hash('sha256', key, 'hex')

export const API_KEY_PATTERN = /^sk-[0-9a-f]{64}$/

/** An id as it is stored, in lower case; undefined for a text that is none. */
export const toObjectId = (text: string | undefined): string | undefined =>
  text !== undefined && /^[0-9a-f]{24}$/i.test(text) ? text.toLowerCase() : undefined
