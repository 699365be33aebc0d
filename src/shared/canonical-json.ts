/**
 * The one way to write a JSON value (RFC 8785): no white space, members by the UTF-16 code units of their names, numbers and
 * strings as ECMAScript writes them. Two equal values give the same bytes, so they have the same hash.
 * @throws TypeError for what JSON has no word for: undefined, functions, symbols, bigints, NaN and the infinities; and for
 * half of a surrogate pair, which has no UTF-8.
 */
export function toCanonicalJson(value: unknown): string {
  if (typeof value === 'string') return toText(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(',')}]`
  if (typeof value !== 'object') throw new TypeError(`JSON has no ${typeof value === 'number' ? value : typeof value}`)
  let members = ''
  // Without a function, `sort` compares code units, as the RFC does.
  for (const name of Object.keys(value).sort()) {
    members += `${members === '' ? '' : ','}${toText(name)}:${toCanonicalJson(Reflect.get(value, name))}`
  }
  return `{${members}}`
}

/** Printable ASCII without quotes and backslashes, as nearly all names and ids are: it needs no escape and no second look. */
const PLAIN = /^[ !#-[\]-~]*$/

function toText(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
  if (!text.isWellFormed()) throw new TypeError('a text in canonical JSON holds no half of a surrogate pair')
  return JSON.stringify(text)
}
