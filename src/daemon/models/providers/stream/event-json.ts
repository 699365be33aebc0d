import { isObject, type Json, parseObject } from '../../json.ts'
import { reportedError, unreadableError } from './failure.ts'
import type { SseEvent } from './sse-event.ts'

/** The end of a stream, as data. */
export const END_MARK = '[DONE]'

/** Data that keeps a connection open, and holds no words: none, or a comment in the place of data. */
export const isHeartbeat = (data: string): boolean => data === '' || data.startsWith(':')

/**
 * The events in one whose data has several lines: itself, or each line, where a server parts its events by one newline instead
 * of two. JSON never goes on after a line that is an object, so neither can be taken for the other.
 */
export function eventsIn(event: SseEvent): SseEvent[] {
  const lines = event.data.split('\n').map((line) => line.trim())
  const first = lines.find((line) => !isHeartbeat(line))
  if (first !== undefined && first !== END_MARK && !parseObject(first)) return [event]
  const last = lines.length - 1
  // Of several names the last one is left, and that is of the last line; and no other line can have been cut.
  return lines.map((data, at) => (at === last ? { ...event, data } : { name: undefined, data, cut: false }))
}

/**
 * The JSON object of an event; undefined for one that broke off (`cut`), of which the engine decides by whether the answer had
 * ended before.
 * @throws ProviderError for what is none: it may have carried text, so leaving it out could pass off a shortened answer as a
 * whole one.
 */
export function parseEvent(data: string, cut: boolean): Json | undefined {
  let event: unknown
  try {
    event = JSON.parse(data)
  } catch {
    if (cut) return undefined
    // Why is not kept: a SyntaxError quotes the text, which is part of an answer, and causes are logged.
    throw unreadableError('an event that is not JSON')
  }
  throwListed(event)
  if (!isObject(event)) throw unreadableError('an event that is not an object')
  return event
}

/** @throws ProviderError for an error in a list, which is how Google sends one. */
export function throwListed(value: unknown): void {
  const first: unknown = Array.isArray(value) ? value[0] : undefined
  if (isObject(first) && isObject(first.error)) throw reportedError(first.error)
}

/** @throws ProviderError when it is missing. */
export function objectIn(value: Json, name: string): Json {
  const member = value[name]
  if (!isObject(member)) throw unreadableError(`content without its ${name}`)
  return member
}

/** A string as it is, nothing for what is missing. @throws ProviderError for anything else. */
export function textIn(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value !== 'string') throw unreadableError('content of an unknown kind')
  return value
}
