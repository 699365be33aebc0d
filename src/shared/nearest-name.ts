import { closest, distance } from 'fastest-levenshtein'

/** The known name that a mistyped one is a slip away from, or undefined. */
export function findNearestName(name: string, known: readonly string[]): string | undefined {
  if (known.length === 0) return undefined
  const nearest = closest(name, known)
  const slips = Math.max(2, Math.floor(nearest.length / 3))
  const slipsMade = distance(name, nearest)
  // As many slips as it has letters would make any name of two letters look like any other.
  return slipsMade <= slips && slipsMade < nearest.length ? nearest : undefined
}

/** `; did you mean "<prefix>listen"?` for a name that is a slip away from a known one, else nothing. */
export function suggestion(name: string, known: readonly string[], prefix = ''): string {
  const nearest = findNearestName(name, known)
  return nearest === undefined ? '' : `; did you mean "${prefix}${nearest}"?`
}
