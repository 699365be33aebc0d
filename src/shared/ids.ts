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

/** `trx-` and a UUID: what guards found in one request. */
export const newTraceId = (): string => `trx-${randomUUID()}`

/** An API key: `sk-` and 64 hex characters from the system's random source. */
export const newApiKey = (): string => `sk-${randomBytes(32).toString('hex')}`

/** What is stored of an API key: its SHA-256, hex. */
export const secretHash = (key: string): string => hash('sha256', key, 'hex')

export const API_KEY_PATTERN = /^sk-[0-9a-f]{64}$/

/** An id as it is stored, in lower case; undefined for a text that is none. */
export const toObjectId = (text: string | undefined): string | undefined =>
  text !== undefined && /^[0-9a-f]{24}$/i.test(text) ? text.toLowerCase() : undefined
