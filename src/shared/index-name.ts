/**
 * Normalises the name of an index: converts it to lower case, replaces white space by `-`, and removes punctuation.
 * Normalising twice changes nothing. INDEX_NAME decides whether the result is valid.
 *
 * A name with letters of other alphabets, or with invisible characters, has no normalised form, so the result is empty.
 * If these characters were removed, the name could become the name of another index.
 */
export function toIndexName(name: string): string {
  const text = name.trim().normalize('NFKC')
  if (!/^[\x20-\x7e\s]*$/.test(text)) return ''
  return text
    .toLowerCase()
    .replace(/\s+/g, '-')
    .replace(/[^a-z0-9-]/g, '')
}
