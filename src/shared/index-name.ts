/**
 * The name as the gateway stores and calls an index: lower case, `-` for white space, other signs left out (named-endpoints §19).
 * Normalising twice changes nothing. Whether the result may be used at all is for INDEX_NAME to say.
 */
export function toIndexName(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replace(/\s+/g, '-')
    .replace(/[^a-z0-9-]/g, '')
}
