import { hash, randomBytes, randomUUID } from 'node:crypto'

// One random part per process and a counter per id, so ids of one daemon sort by time and never collide.
const processPart = randomBytes(5).toString('hex')
let counter = randomBytes(3).readUIntBE(0, 3)

/** 24 hex characters: 4 bytes of seconds, 5 of process, 3 of counter. Unique and time-ordered, but not secret. */
export function newId(now: number = Date.now()): string {
  counter = (counter + 1) & 0xffffff
  const seconds = Math.floor(now / 1000) & 0xffffffff
  return (seconds >>> 0).toString(16).padStart(8, '0') + processPart + counter.toString(16).padStart(6, '0')
}

/** `req-` and 24 hex characters. */
export const newRequestId = (now?: number): string => `req-${newId(now)}`

/** `conv-` and 24 hex characters. */
export const newConversationId = (now?: number): string => `conv-${newId(now)}`

/** Of entries that are signed together: 32 hex characters, 4 bytes of seconds and 12 that nobody can guess. */
export function newCommitId(now: number): string {
  const seconds = Math.floor(now / 1000) & 0xffffffff
  return (seconds >>> 0).toString(16).padStart(8, '0') + randomBytes(12).toString('hex')
}

/** `trx-` and a UUID: what guards found in one request. */
export const newTraceId = (): string => `trx-${randomUUID()}`

/**
 * `jti-` and a UUID of version 7 (RFC 9562 §5.7): what the evidence of one request is called. It begins with the time; its 74
 * random bits are the system's, so nobody guesses one.
 */
export function newBundleId(now: number = Date.now()): string {
  const milliseconds = now.toString(16).padStart(12, '0')
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
