import { findNearestName } from '../../shared/nearest-name.ts'

/** `; did you mean "<prefix>listen"?` for a name that is a slip away from a known one, else nothing. */
export function suggestion(name: string, known: readonly string[], prefix = ''): string {
  const nearest = findNearestName(name, known)
  return nearest === undefined ? '' : `; did you mean "${prefix}${nearest}"?`
}
