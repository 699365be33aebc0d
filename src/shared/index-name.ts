/**
 * The normalised name of an index: lower case, `-` for white space, other characters removed. Normalising twice changes
 * nothing. INDEX_NAME decides whether the result is valid.
 */
export function toIndexName(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replace(/\s+/g, '-')
    .replace(/[^a-z0-9-]/g, '')
}
