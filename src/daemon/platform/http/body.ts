import { isAscii, isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { z } from 'zod'
import {
  countingMembers,
  countMembers,
  type DoubledMember,
  findDoubledMember,
  findingDoubledMember,
} from '../../../shared/doubled-member.ts'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { BODY_COPIES, JSON_DEPTH, REQUEST_TIMEOUT_MS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import { inSteps } from '../../../shared/wire/long-list.ts'
import { type JsonReaderOptions, readingJson } from '../text/json-reader.ts'
import type { BodyShare } from './body-memory.ts'

/** The timeout REQUEST_TIMEOUT_MS restarts whenever this many bytes have arrived. */
const BODY_PART_BYTES = 1_048_576
/** The first buffer of a body whose length is unknown. */
const FIRST_BUFFER_BYTES = 65_536
/** Maximum time that a connection stays open for the rest of a rejected request's body, after the response. */
export const LINGER_MS = 2_000
/** Maximum number of values in one JSON body. Millions of empty values take many times the memory of their bytes. */
export const JSON_VALUES = 1_000_000
/** Maximum length of a name, a number or white space in one JSON body, because each is read in one step. */
const JSON_TOKEN_BYTES = 1_048_576
/** Approximate memory of a parsed value in addition to its text. */
const JSON_VALUE_BYTES = 64

/**
 * Maximum number of bytes to read from a rejected body. If the connection closed earlier, a client that is still
 * sending might miss its response.
 */
export const DISCARD_BYTES = { known: 64 * 1024 * 1024, unknown: 8 * 1024 * 1024 } as const

/**
 * Reads a whole body. `share` counts the body's memory, BODY_COPIES.ascii for each byte. A declared length is counted
 * in one step, other bytes as they arrive.
 * @param proceed called before anything is read, unless the declared length is rejected
 * @throws OVERLOADED if `share` has too little free memory. PAYLOAD_TOO_LARGE above `limit` bytes. REQUEST_TIMEOUT if
 * less than BODY_PART_BYTES arrive within REQUEST_TIMEOUT_MS. INVALID_HTTP if the client disconnects before the end.
 * The signal's reason on abort.
 */
export function readBody(
  request: Readable & Pick<IncomingMessage, 'headers' | 'complete'>,
  limit: number,
  clock: Clock,
  signal: AbortSignal,
  share: BodyShare,
  proceed: () => void = () => {},
): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0)
  try {
    if (declared > limit) throw tooLarge(limit)
    share.hold(declared * BODY_COPIES.ascii)
  } catch (error) {
    return Promise.reject(error)
  }
  proceed()
  if (request.destroyed) return Promise.reject(cutShort())
  if (signal.aborted) return Promise.reject(signal.reason)
  function holdArrived(more: number, bytes: number): void {
    if (bytes > limit) throw tooLarge(limit)
    if (declared === 0) share.hold(more * BODY_COPIES.ascii)
  }
  if (request.complete) {
    // Fast path for nearly all requests: the body arrived together with the headers, so no listener or timer is needed.
    const body: Buffer = request.read() ?? EMPTY
    try {
      holdArrived(body.length, body.length)
    } catch (error) {
      return Promise.reject(error)
    }
    return Promise.resolve(body)
  }
  return new Promise((resolve, reject) => {
    // Chunks are copied at once. A list of millions of one-byte chunks would take many times their memory.
    let whole: Buffer = Buffer.allocUnsafe(declared > 0 ? declared : FIRST_BUFFER_BYTES)
    let bytes = 0
    let bytesInTime = 0
    let timer = clock.after(REQUEST_TIMEOUT_MS, onTimer)
    function onTimer(): void {
      if (bytes - bytesInTime < BODY_PART_BYTES) {
        fail(new GatewayError('REQUEST_TIMEOUT', 'The request body did not arrive in time. Send the request again.'))
        return
      }
      bytesInTime = bytes
      timer = clock.after(REQUEST_TIMEOUT_MS, onTimer)
    }
    function settle(): void {
      timer.cancel()
      signal.removeEventListener('abort', onAbort)
      request.off('data', onData).off('end', onEnd).off('close', onClose)
    }
    function fail(error: unknown): void {
      settle()
      reject(error)
    }
    function onData(chunk: Buffer): void {
      bytes += chunk.length
      try {
        holdArrived(chunk.length, bytes)
      } catch (error) {
        fail(error)
        return
      }
      if (bytes > whole.length) whole = enlarged(whole, bytes, limit)
      chunk.copy(whole, bytes - chunk.length)
    }
    function onEnd(): void {
      settle()
      resolve(bytes === whole.length ? whole : whole.subarray(0, bytes))
    }
    const onClose = () => fail(cutShort())
    const onAbort = () => fail(signal.reason)
    signal.addEventListener('abort', onAbort)
    request.on('data', onData).on('end', onEnd).on('close', onClose)
  })
}

const EMPTY = Buffer.alloc(0)

/** Doubles the size, so that each byte is copied about twice in all. */
function enlarged(whole: Buffer, bytes: number, limit: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.min(limit, Math.max(bytes, 2 * whole.length)))
  whole.copy(larger)
  return larger
}

const cutShort = () => new GatewayError('INVALID_HTTP', 'The request ended before its body was complete.')

const tooLarge = (limit: number) =>
  new GatewayError('PAYLOAD_TOO_LARGE', `The request body may have at most ${limit} bytes. Send a smaller body.`)

/**
 * Discards the rest of a rejected request's body, up to its end, `maxBytes` or LINGER_MS, whichever is reached first.
 */
export function discardBody(request: IncomingMessage, clock: Clock, maxBytes: number): Promise<void> {
  if (request.complete || request.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    let bytes = 0
    const timer = clock.after(LINGER_MS, done)
    function done(): void {
      timer.cancel()
      request.off('data', onData).off('end', done).off('close', done)
      resolve()
    }
    function onData(chunk: Buffer): void {
      bytes += chunk.length
      if (bytes > maxBytes) done()
    }
    request.on('data', onData).on('end', done).on('close', done).resume()
  })
}

/**
 * Parses and validates a body.
 * @param share counts the parsed values, and the memory of non-ASCII text in addition to BODY_COPIES.ascii
 * @param maxDepth maximum nesting of arrays and objects
 * @throws OVERLOADED if `share` has too little free memory. INVALID_JSON if the bytes are not JSON, are nested too
 * deeply, have too many values, or have a member twice. VALIDATION_ERROR naming the first invalid field.
 */
export function parseBody(raw: Buffer, schema: z.ZodType, share: BodyShare, maxDepth: number = JSON_DEPTH): unknown {
  const { values, members } = shapeOf(raw, maxDepth)
  holdParsed(raw, share, values)
  const text = raw.toString()
  const value = toJson(raw, text)
  // Comparing two counts costs a small part of parsing. Only a text with a doubled member is searched for it.
  if (countMembers(value) !== members) throw doubled(findDoubledMember(text))
  return checkAgainst(schema, value)
}

/** Like `parseBody`, but in many short steps. Values are counted and created piece by piece. */
export function* parsingBody(
  raw: Buffer,
  schema: z.ZodType,
  share: BodyShare,
  maxDepth: number = JSON_DEPTH,
): Generator<void, unknown> {
  requireUtf8(raw)
  yield
  holdParsed(raw, share, 0)
  yield
  let values = 0
  function beforeValues(count: number): void {
    values += count
    if (values > JSON_VALUES) throw tooManyValues()
    share.hold(count * JSON_VALUE_BYTES)
  }
  const limits = { maxDepth, tooDeep: () => tooDeep(maxDepth), maxTokenBytes: JSON_TOKEN_BYTES, tokenTooLong }
  let members = 0
  function atEnd(count: number): void {
    members = count
  }
  const value = yield* readingValue(raw, { ...limits, beforeValues, atEnd })
  yield
  if ((yield* countingMembers(value)) !== members) throw doubled(yield* findingDoubledMember(raw.toString()))
  return yield* inSteps(() => checkAgainst(schema, value))
}

function* readingValue(raw: Buffer, options: JsonReaderOptions): Generator<void, unknown> {
  try {
    return yield* readingJson(raw, options)
  } catch (error) {
    throw error instanceof SyntaxError ? notJson(error.message, error) : error
  }
}

function holdParsed(raw: Buffer, share: BodyShare, values: number): void {
  const beyondAscii = isPlain(raw) ? 0 : raw.length * (BODY_COPIES.other - BODY_COPIES.ascii)
  share.hold(values * JSON_VALUE_BYTES + beyondAscii)
}

function toJson(raw: Buffer, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw notJson(raw.length === 0 ? 'the body is empty' : (cause as Error).message.slice(0, 120), cause)
  }
}

const notJson = (reason: string, cause: unknown) =>
  new GatewayError('INVALID_JSON', `The body must be a JSON object: ${reason}`, { cause })

const tooDeep = (maxDepth: number) =>
  new GatewayError('INVALID_JSON', `The JSON body may be nested at most ${maxDepth} levels deep.`)

/** The counts of a text differ only if it has a doubled member, so `found` is defined. */
function doubled(found: DoubledMember | undefined): GatewayError {
  const { name = '', where = '' } = found ?? {}
  const place = where === '' ? '' : ` in ${where}`
  return new GatewayError('INVALID_JSON', `The JSON body has the member "${name}" twice${place}. Send it once.`, {
    details: { field: where === '' ? name : `${where}.${name}` },
  })
}

const tooManyValues = () => new GatewayError('INVALID_JSON', `The JSON body may contain at most ${JSON_VALUES} values.`)

const tokenTooLong = () =>
  new GatewayError('INVALID_JSON', `A name or a number in the JSON body may have at most ${JSON_TOKEN_BYTES} bytes.`)

function requireUtf8(raw: Buffer): void {
  if (!isUtf8(raw)) throw new GatewayError('INVALID_JSON', 'The body must be encoded as UTF-8.')
}

/** Whether every string in the body consists of one-byte characters. Many clients escape all other characters. */
const isPlain = (raw: Buffer): boolean => isAscii(raw) && !raw.includes('\\u')

const [QUOTE, COMMA, COLON, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x5c]
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Counts the values and the members of objects, and checks the depth before parsing: a parsed malicious body could take
 * many times its size in memory.
 */
function shapeOf(raw: Buffer, maxDepth: number): { values: number; members: number } {
  requireUtf8(raw)
  let depth = 0
  let values = 0
  let members = 0
  for (let at = 0; at < raw.length; at++) {
    const byte = raw[at]
    if (byte === QUOTE) at = stringEnd(raw, at)
    else if (byte === COMMA) values += 1
    else if (byte === COLON) members += 1
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      values += 1
      depth += 1
      if (depth > maxDepth) throw tooDeep(maxDepth)
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth -= 1
  }
  if (values > JSON_VALUES) throw tooManyValues()
  return { values, members }
}

/**
 * Returns the position of the quote that closes the string beginning at `start`. Returns the end of the body if there
 * is no closing quote.
 */
function stringEnd(raw: Buffer, start: number): number {
  for (let end = raw.indexOf(QUOTE, start + 1); end >= 0; end = raw.indexOf(QUOTE, end + 1)) {
    let escapes = 0
    while (raw[end - 1 - escapes] === BACKSLASH) escapes += 1
    if (escapes % 2 === 0) return end
  }
  return raw.length
}

/** Parses and validates a query string. @throws VALIDATION_ERROR naming the first invalid or repeated parameter. */
export function parseQuery(search: string, schema: z.ZodType): unknown {
  const values: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(search)) {
    if (Object.hasOwn(values, name))
      throw invalidField(name, `The parameter "${name}" was sent more than once. Send it once.`, value)
    values[name] = value
  }
  return checkAgainst(schema, values)
}

/** Validates the value and returns the schema's output. @throws VALIDATION_ERROR naming the first invalid field */
export function checkAgainst(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  // Validates a second time to get the invalid value, because zod's fast path does not report it.
  const { error } = schema.safeParse(value, { reportInput: true })
  const { issues } = error ?? result.error
  // A misspelt required property causes two issues: an unknown and a missing property. Reports the unknown name,
  // because it is more useful to the caller.
  throw toValidationError(issues.find(isUnknownMember) ?? (issues[0] as z.core.$ZodIssue))
}

const isUnknownMember = ({ code }: z.core.$ZodIssue): boolean => code === 'unrecognized_keys'

/** Converts one validation issue to the error for the caller. */
function toValidationError(issue: z.core.$ZodIssue): GatewayError {
  const field = issue.path.join('.')
  const message = /[.?]$/.test(issue.message) ? issue.message : `${issue.message}.`
  if (field === '') return new GatewayError('VALIDATION_ERROR', message)
  // The message about an unknown property already contains its path.
  return invalidField(field, isUnknownMember(issue) ? message : `${field}: ${message}`, issue.input)
}

/** @throws UNSUPPORTED_MEDIA_TYPE unless the Content-Type is JSON. */
export function requireJson(request: IncomingMessage): void {
  const type = request.headers['content-type']
  if (type === 'application/json' || /^application\/json\s*(;|$)/i.test(type ?? '')) return
  throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as JSON with "Content-Type: application/json".')
}
