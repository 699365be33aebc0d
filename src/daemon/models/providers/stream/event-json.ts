import { isObject, type Json, parseObject } from '../../../platform/text/json.ts'
import { reportedError, unreadableError } from './failure.ts'
import type { SseEvent } from './sse-event.ts'

/** The data that marks the end of a stream. */
export const END_MARK = '[DONE]'

/** Whether the data is a keep-alive without content: empty, or a comment in the data. */
export const isHeartbeat = (data: string): boolean => data === '' || data.startsWith(':')

/**
 * Splits an event that has several lines of data into the events that it contains. Usually, the result is the event
 * itself. If the server separates events by one newline instead of two, each line is an event. The two cases cannot be
 * confused, because JSON ends after a line that is a whole object.
 */
export function eventsIn(event: SseEvent): SseEvent[] {
  const lines = event.data.split('\n').map((line) => line.trim())
  const first = lines.find((line) => !isHeartbeat(line))
  if (first !== undefined && first !== END_MARK && !parseObject(first)) return [event]
  const last = lines.length - 1
  // The name belongs to the last line, because the last of several names replaces the earlier names. Only the last line
  // can be incomplete.
  return lines.map((data, at) => (at === last ? { ...event, data } : { name: undefined, data, cut: false }))
}

/**
 * Parses the JSON object of an event. Returns undefined for an incomplete event (`cut`): the assembly then checks
 * whether the answer had already ended.
 * @throws ProviderError for invalid JSON: skipping it could lose text and make a shortened answer look complete
 */
export function parseEvent(data: string, cut: boolean): Json | undefined {
  let event: unknown
  try {
    event = JSON.parse(data)
  } catch {
    if (cut) return undefined
    // The cause is dropped, because causes are logged and a SyntaxError quotes the text of the answer.
    throw unreadableError('an event that is not JSON')
  }
  throwListed(event)
  if (!isObject(event)) throw unreadableError('an event that is not an object')
  return event
}

/** @throws ProviderError if the value is a list that contains an error; Google sends errors in this form */
export function throwListed(value: unknown): void {
  const first: unknown = Array.isArray(value) ? value[0] : undefined
  if (isObject(first) && isObject(first.error)) throw reportedError(first.error)
}

/** @throws ProviderError if the member is missing */
export function objectIn(value: Json, name: string): Json {
  const member = value[name]
  if (!isObject(member)) throw unreadableError(`content without its ${name}`)
  return member
}

/** Returns the string, or an empty string if the value is missing. @throws ProviderError for any other value */
export function textIn(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value !== 'string') throw unreadableError('content of an unknown kind')
  return value
}
