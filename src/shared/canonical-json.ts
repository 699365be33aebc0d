/**
 * Returns the canonical JSON of a value (RFC 8785). It has no white space. Members are sorted by the UTF-16 code units
 * of their names. Numbers and strings are written as in ECMAScript. Equal values give the same bytes, so they have the
 * same hash.
 * @throws TypeError for values that JSON cannot express (undefined, functions, symbols, bigints, NaN and the
 * infinities), and for lone surrogates, because UTF-8 cannot encode them
 */
export function toCanonicalJson(value: unknown): string {
  if (typeof value === 'string') return toText(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(',')}]`
  if (typeof value !== 'object') throw new TypeError(`JSON has no ${typeof value === 'number' ? value : typeof value}`)
  let members = ''
  // Without a function, `sort` compares code units, as the RFC requires.
  for (const name of Object.keys(value).sort()) {
    members += `${members === '' ? '' : ','}${toText(name)}:${toCanonicalJson(Reflect.get(value, name))}`
  }
  return `{${members}}`
}

/**
 * Matches printable ASCII without quotes and backslashes. Matching text needs no escape. Nearly all names and ids
 * match.
 */
const PLAIN = /^[ !#-[\]-~]*$/

function toText(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
  if (!text.isWellFormed()) throw new TypeError('canonical JSON cannot contain unpaired surrogates')
  return JSON.stringify(text)
}
