import { closest, distance } from 'fastest-levenshtein'

/** `; did you mean "<prefix>listen"?` for a name that is a slip away from a known one, else nothing. */
export function suggestion(name: string, known: readonly string[], prefix = ''): string {
  if (known.length === 0) return ''
  const nearest = closest(name, known)
  const slips = Math.max(2, Math.floor(nearest.length / 3))
  return distance(name, nearest) <= slips ? `; did you mean "${prefix}${nearest}"?` : ''
}
