import { isAscii, isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import {
  BODY_COPIES,
  BODY_PART_BYTES,
  JSON_DEPTH,
  JSON_VALUE_BYTES,
  JSON_VALUES,
  LINGER_MS,
  REQUEST_TIMEOUT_MS,
} from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { BodyShare } from './body-memory.ts'

/** So much of a refused body is read at most: a client that is still sending might miss its answer otherwise. */
export const DISCARD_BYTES = { known: 64 * 1024 * 1024, unknown: 8 * 1024 * 1024 } as const

/**
 * Reads a whole body; `share` holds what it takes in memory, BODY_COPIES.ascii for each byte: from the beginning when the
 * length was declared, else from its arrival.
 * @param proceed called before anything is read, unless the declared length is refused
 * @throws OVERLOADED when `share` has no room, PAYLOAD_TOO_LARGE above `limit` bytes, REQUEST_TIMEOUT when less than
 * BODY_PART_BYTES arrive within REQUEST_TIMEOUT_MS, INVALID_HTTP when the client stops half way, and the signal's reason when
 * it is aborted.
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
    // All of it came with the headers, as nearly every request does: no listener and no timer is needed.
    const body: Buffer = request.read() ?? EMPTY
    try {
      holdArrived(body.length, body.length)
    } catch (error) {
      return Promise.reject(error)
    }
    return Promise.resolve(body)
  }
  return new Promise((resolve, reject) => {
    // One buffer for a body whose length is known: to join pieces would take its size twice.
    const whole = declared > 0 ? Buffer.allocUnsafe(declared) : undefined
    const pieces: Buffer[] = []
    let bytes = 0
    let bytesInTime = 0
    let timer = clock.after(REQUEST_TIMEOUT_MS, onTimer)
    function onTimer(): void {
      if (bytes - bytesInTime < BODY_PART_BYTES) {
        fail(new GatewayError('REQUEST_TIMEOUT', 'The body did not arrive in time; send the request again.'))
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
      if (whole) chunk.copy(whole, bytes - chunk.length)
      else pieces.push(chunk)
    }
    function onEnd(): void {
      settle()
      resolve(whole ?? (pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)))
    }
    const onClose = () => fail(cutShort())
    const onAbort = () => fail(signal.reason)
    signal.addEventListener('abort', onAbort)
    request.on('data', onData).on('end', onEnd).on('close', onClose)
  })
}

const EMPTY = Buffer.alloc(0)

const cutShort = () => new GatewayError('INVALID_HTTP', 'The request ended before its body was complete.')

const tooLarge = (limit: number) =>
  new GatewayError('PAYLOAD_TOO_LARGE', `The body may have at most ${limit} bytes; send less.`)

/** Throws away what still comes of a refused request's body: all of it, `maxBytes` or for LINGER_MS, what is first. */
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
 * Bytes → checked value.
 * @param share holds what the parsed values take, and what text beyond ASCII does beside BODY_COPIES.ascii
 * @param maxDepth levels that arrays and objects may nest
 * @throws OVERLOADED when `share` has no room, INVALID_JSON for bytes that are not JSON, nest too deep or hold too many
 * values, VALIDATION_ERROR naming the first field at fault.
 */
export function parseBody(raw: Buffer, schema: z.ZodType, share: BodyShare, maxDepth: number = JSON_DEPTH): unknown {
  holdParsed(raw, share, valuesOf(raw, maxDepth))
  return checkAgainst(schema, toJson(raw, raw.toString()))
}

/** The same with a stop wherever others may have their turn: each step takes long when the body is large. */
export function* parsingBody(
  raw: Buffer,
  schema: z.ZodType,
  share: BodyShare,
  maxDepth: number = JSON_DEPTH,
): Generator<void, unknown> {
  const values = valuesOf(raw, maxDepth)
  yield
  holdParsed(raw, share, values)
  yield
  const text = raw.toString()
  yield
  const value = toJson(raw, text)
  yield
  return checkAgainst(schema, value)
}

function holdParsed(raw: Buffer, share: BodyShare, values: number): void {
  const beyondAscii = isPlain(raw) ? 0 : raw.length * (BODY_COPIES.other - BODY_COPIES.ascii)
  share.hold(values * JSON_VALUE_BYTES + beyondAscii)
}

function toJson(raw: Buffer, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const reason = raw.length === 0 ? 'the body is empty' : (cause as Error).message.slice(0, 120)
    throw new GatewayError('INVALID_JSON', `The body must be a JSON object: ${reason}`, { cause })
  }
}

/** Whether all its texts are of characters that take one byte. Many clients escape all others. */
const isPlain = (raw: Buffer): boolean => isAscii(raw) && !raw.includes('\\u')

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c]
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/** Counts the values and checks their depth before parsing: a hostile body would take many times its size in memory. */
function valuesOf(raw: Buffer, maxDepth: number): number {
  if (!isUtf8(raw)) throw new GatewayError('INVALID_JSON', 'The body must be UTF-8.')
  let depth = 0
  let values = 0
  for (let at = 0; at < raw.length; at++) {
    const byte = raw[at]
    if (byte === QUOTE) at = stringEnd(raw, at)
    else if (byte === COMMA) values += 1
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      values += 1
      depth += 1
      if (depth > maxDepth) throw new GatewayError('INVALID_JSON', `The body nests deeper than ${maxDepth} levels.`)
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth -= 1
  }
  if (values > JSON_VALUES) throw new GatewayError('INVALID_JSON', `The body holds more than ${JSON_VALUES} values.`)
  return values
}

/** Where the string that begins at `start` has its closing quote; the end of the body when it has none. */
function stringEnd(raw: Buffer, start: number): number {
  for (let end = raw.indexOf(QUOTE, start + 1); end >= 0; end = raw.indexOf(QUOTE, end + 1)) {
    let escapes = 0
    while (raw[end - 1 - escapes] === BACKSLASH) escapes += 1
    if (escapes % 2 === 0) return end
  }
  return raw.length
}

/** Query string → checked value. @throws VALIDATION_ERROR as for bodies, also for a parameter given twice. */
export function parseQuery(search: string, schema: z.ZodType): unknown {
  const values: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(search)) {
    if (Object.hasOwn(values, name))
      throw invalidField(name, `The parameter "${name}" was given more than once.`, value)
    values[name] = value
  }
  return checkAgainst(schema, values)
}

/** The value as the schema makes it. @throws VALIDATION_ERROR naming the first field at fault */
export function checkAgainst(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  // Asked again for the input at fault: zod's fast way does not keep it.
  const { error } = schema.safeParse(value, { reportInput: true })
  const { issues } = error ?? result.error
  // A required member that is misspelt is unknown and absent; the misspelling is what helps.
  throw toValidationError(issues.find(isUnknownMember) ?? (issues[0] as z.core.$ZodIssue))
}

const isUnknownMember = ({ code }: z.core.$ZodIssue): boolean => code === 'unrecognized_keys'

/** One issue of a failed check, as the error a caller sees. */
export function toValidationError(issue: z.core.$ZodIssue): GatewayError {
  const field = issue.path.join('.')
  const message = /[.?]$/.test(issue.message) ? issue.message : `${issue.message}.`
  if (field === '') return new GatewayError('VALIDATION_ERROR', message)
  // That of an unknown member says itself where it is.
  return invalidField(field, isUnknownMember(issue) ? message : `${field}: ${message}`, issue.input)
}

/** @throws UNSUPPORTED_MEDIA_TYPE unless the Content-Type is JSON. */
export function requireJson(request: IncomingMessage): void {
  const type = request.headers['content-type']
  if (type === 'application/json' || /^application\/json\s*(;|$)/i.test(type ?? '')) return
  throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as JSON with "Content-Type: application/json".')
}
