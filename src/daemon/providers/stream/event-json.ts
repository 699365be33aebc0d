import { isObject, type Json } from '../json.ts'
import { reportedError, unreadableError } from './failure.ts'

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
