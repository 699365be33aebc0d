import { closest, distance } from 'fastest-levenshtein'

/** Returns the known name that is closest to a mistyped name, or undefined if no name is close. */
export function findNearestName(name: string, known: readonly string[]): string | undefined {
  if (known.length === 0) return undefined
  const nearest = closest(name, known)
  const slips = Math.max(2, Math.floor(nearest.length / 3))
  const slipsMade = distance(name, nearest)
  // Requires fewer typos than letters, because otherwise any two names of two letters would match.
  return slipsMade <= slips && slipsMade < nearest.length ? nearest : undefined
}

/** Returns `; did you mean "<prefix>listen"?` if the name is close to a known name. Otherwise an empty string. */
export function suggestion(name: string, known: readonly string[], prefix = ''): string {
  const nearest = findNearestName(name, known)
  return nearest === undefined ? '' : `; did you mean "${prefix}${nearest}"?`
}
