import { hash, randomBytes, randomFillSync, randomUUID } from 'node:crypto'

// Ids contain a part that is random for each process, and a counter. The ids of one daemon sort by time and never
// collide.
const processPart = randomBytes(5).toString('hex')
let counter = randomBytes(3).readUIntBE(0, 3)

const HEX_OF_BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const hexOfByte = (bits: number): string => HEX_OF_BYTES[bits & 0xff] as string
/**
 * These functions format 6 or 8 hex characters. `toString(16)` would take ten times as long, and each request needs
 * several ids.
 */
const hex24 = (bits: number): string => hexOfByte(bits >>> 16) + hexOfByte(bits >>> 8) + hexOfByte(bits)
const hex32 = (bits: number): string => hexOfByte(bits >>> 24) + hex24(bits)
const hexOfSeconds = (ms: number): string => hex32(Math.floor(ms / 1000))

/**
 * 24 hex characters: 4 bytes of seconds, 5 bytes for the process, and 3 bytes of counter. Unique and time-ordered. From
 * two ids, anyone can compute how many ids were created in between, so use this format only for objects that
 * administrators create.
 */
export function newId(now: number = Date.now()): string {
  counter = (counter + 1) & 0xffffff
  return hexOfSeconds(now) + processPart + hex24(counter)
}

/**
 * The buffer is filled in bulk: calling the system's random source for each id would take most of the time of creating
 * an id.
 */
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
 * 24 hex characters: 4 bytes of seconds and 8 random bytes. The seconds at the start keep new rows adjacent in a
 * database index. Ids cannot be guessed and do not reveal how many exist. At 10,000 ids a second, a collision is
 * expected after about 10,000 years.
 */
const newOpaqueId = (now: number = Date.now()): string => hexOfSeconds(now) + randomHex()

/** `req-` and 24 hex characters. 16 of these characters are random. */
export const newRequestId = (now?: number): string => `req-${newOpaqueId(now)}`

/** `conv-` and 24 hex characters. 16 of these characters are random. */
export const newConversationId = (now?: number): string => `conv-${newOpaqueId(now)}`

/** Returns the id of a commit: 32 hex characters, 4 bytes of seconds and 12 random bytes. */
export const newCommitId = (now: number): string => hexOfSeconds(now) + randomBytes(12).toString('hex')

/** `trx-` and a UUID: identifies the guard findings of one request. */
export const newTraceId = (): string => `trx-${randomUUID()}`

/**
 * Returns the id of a request's evidence: `jti-` and a UUID of version 7 (RFC 9562 §5.7). The UUID begins with the
 * time. Its 74 random bits come from the system, so the id cannot be guessed.
 */
export function newBundleId(now: number = Date.now()): string {
  const milliseconds = hex24(Math.floor(now / 0x100000000)).slice(2) + hex32(now)
  // A version 4 UUID is random except for its version and variant. The version is the 15th character and is replaced.
  // The variant is kept.
  const random = randomUUID().slice(15)
  return `jti-${milliseconds.slice(0, 8)}-${milliseconds.slice(8)}-7${random}`
}

/** Returns an API key: `sk-` and 64 hex characters from the system's random source. */
export const newApiKey = (): string => `sk-${randomBytes(32).toString('hex')}`

/** Returns the stored form of an API key: the SHA-256 of the key, in hex. */
export const secretHash = (key: string): string => hash('sha256', key, 'hex')

export const API_KEY_PATTERN = /^sk-[0-9a-f]{64}$/

/** Normalises an id to lower case. Returns undefined if the id is invalid. */
export const toObjectId = (text: string | undefined): string | undefined =>
  text !== undefined && /^[0-9a-f]{24}$/i.test(text) ? text.toLowerCase() : undefined
