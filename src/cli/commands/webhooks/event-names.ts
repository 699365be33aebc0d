import { ALL_EVENTS, SUBSCRIBABLE_EVENTS, type SubscribableEvent, TEST_EVENT } from '../../../shared/event-catalog.ts'
import { findNearestName } from '../../../shared/nearest-name.ts'
import { type CliError, usageError } from '../../errors.ts'

/** One event of the catalog by its name. Throws a usage error for any other name. */
export function getEvent(name: string): SubscribableEvent {
  const found = SUBSCRIBABLE_EVENTS.find((event) => event === name)
  if (found === undefined) throw unknownEvent(name)
  return found
}

/** An event of a subscription: one of the catalog, or `*`. Throws a usage error for any other name. */
export const toSubscription = (name: string): string => (name === ALL_EVENTS ? name : getEvent(name))

/**
 * Whether an event is one of these names or fits one of these patterns, in which only the end may be a `*`. Throws a usage
 * error for one that no event fits.
 */
export function eventMatcher(patterns: string[]): (event: string) => boolean {
  const fits = (pattern: string, event: string) =>
    pattern.endsWith('*') ? event.startsWith(pattern.slice(0, -1)) : event === pattern
  for (const pattern of patterns) {
    if (!SUBSCRIBABLE_EVENTS.some((event) => fits(pattern, event))) throw unknownEvent(pattern)
  }
  return (event) => patterns.length === 0 || patterns.some((pattern) => fits(pattern, event))
}

function unknownEvent(name: string): CliError {
  if (name === TEST_EVENT) {
    return usageError(`${TEST_EVENT} is only ever sent to one endpoint`, ['Send it:  aigw webhooks test ID'])
  }
  const nearest = findNearestName(name, SUBSCRIBABLE_EVENTS)
  const hints = nearest === undefined ? [] : [`Did you mean '${nearest}'?`]
  return usageError(`there is no event '${name}'`, [...hints, 'All events:  aigw webhooks events'])
}
