/** Finds events by name or pattern. */
import { SUBSCRIBABLE_EVENTS, type SubscribableEvent, TEST_EVENT } from '../../../shared/event-catalog.ts'
import { findNearestName } from '../../../shared/nearest-name.ts'
import { type CliError, usageError } from '../../errors.ts'

/** Returns the event with this name. Throws a usage error for an unknown name. */
export function getEvent(name: string): SubscribableEvent {
  const found = SUBSCRIBABLE_EVENTS.find((event) => event === name)
  if (found === undefined) throw unknownEvent(name)
  return found
}

/**
 * Returns a function that checks whether an event matches any of the given names or patterns (`pii:*`). An empty list
 * matches every event. Throws a usage error for a pattern that matches no event.
 */
export function eventMatcher(patterns: string[]): (event: string) => boolean {
  const matches = (pattern: string, event: string) =>
    pattern.endsWith('*') ? event.startsWith(pattern.slice(0, -1)) : event === pattern
  for (const pattern of patterns) {
    if (!SUBSCRIBABLE_EVENTS.some((event) => matches(pattern, event))) throw unknownEvent(pattern)
  }
  return (event) => patterns.length === 0 || patterns.some((pattern) => matches(pattern, event))
}

function unknownEvent(name: string): CliError {
  if (name === TEST_EVENT) {
    return usageError(`${TEST_EVENT} is sent to one endpoint only`, ['Send it:  aigw webhooks test ID'])
  }
  const nearest = findNearestName(name, SUBSCRIBABLE_EVENTS)
  const hints = nearest === undefined ? [] : [`Did you mean '${nearest}'?`]
  return usageError(`there is no event '${name}'`, [...hints, 'All events:  aigw webhooks events'])
}
