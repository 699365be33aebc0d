import { isDeepStrictEqual } from 'node:util'
import { invalidField } from '../../../shared/errors.ts'

/** Read-only properties that change on their own, so a client may send back an outdated value. */
const VOLATILE: ReadonlySet<string> = new Set([
  'updatedAt',
  'lastUsedAt',
  'lastActive',
  'userCount',
  'period',
  'subjectName',
  'currentSpend',
  'remainingBudget',
  'documentCount',
  'embedding',
  'failureCount',
  'lastDeliveryAt',
  'lastStatus',
  'heldDeliveries',
  'heldDropped',
  'previousSecretUntil',
])

/**
 * Returns the changes that a PUT body requests: all properties except those in `readOnly`. A client may send back
 * read-only properties unchanged. Null means "not sent".
 * @param shown the resource as GET returns it now
 * @throws VALIDATION_ERROR if a read-only property has another value
 */
export function changesIn<Body extends object, Name extends string & keyof Body>(
  body: Body,
  readOnly: readonly Name[],
  shown: Record<Name, unknown>,
): Omit<Body, Name> {
  const changes = { ...body }
  for (const name of readOnly) {
    const given: unknown = body[name] ?? undefined
    if (given !== undefined && !VOLATILE.has(name) && !isDeepStrictEqual(given, shown[name])) {
      throw invalidField(name, `${name} is read-only. Omit it, or send the value that GET returns.`, given)
    }
    delete changes[name]
  }
  return changes
}
