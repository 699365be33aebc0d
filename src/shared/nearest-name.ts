import { closest, distance } from 'fastest-levenshtein'

/** The known name that a mistyped one is a slip away from, or undefined. */
export function findNearestName(name: string, known: readonly string[]): string | undefined {
  if (known.length === 0) return undefined
  const nearest = closest(name, known)
  const slips = Math.max(2, Math.floor(nearest.length / 3))
  return distance(name, nearest) <= slips ? nearest : undefined
}
