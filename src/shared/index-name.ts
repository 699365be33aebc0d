/**
 * Normalises the name of an index: converts it to lower case, replaces white space by `-`, and removes other
 * characters. Normalising twice changes nothing. INDEX_NAME decides whether the result is valid.
 */
export function toIndexName(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replace(/\s+/g, '-')
    .replace(/[^a-z0-9-]/g, '')
}
