/** A way to write a value so that a search for its usual form misses it. */
export type Spelling = { name: string; write(value: string): string }

const bytes = (value: string, one: (byte: number) => string, between = '') =>
  Array.from(Buffer.from(value), one).join(between)
const separated = (value: string, separator: string) => value.replace(/[ -]/g, separator)
const half = (value: string, between: string) => {
  const middle = Math.ceil(value.length / 2)
  return value.slice(0, middle) + between + value.slice(middle)
}

/** Spellings of any value. */
export const SPELLINGS: readonly Spelling[] = [
  { name: 'as it stands', write: (value) => value },
  {
    name: 'in full width',
    write: (value) => value.replace(/[!-~]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0)),
  },
  { name: 'with zero-width characters', write: (value) => Array.from(value).join('\u200b') },
  { name: 'with soft hyphens', write: (value) => half(value, '\u00ad') },
  { name: 'in base64', write: (value) => Buffer.from(value).toString('base64') },
  {
    name: 'in base64 with other text',
    write: (value) => Buffer.from(`Please note ${value} today.`).toString('base64'),
  },
  { name: 'in hex', write: (value) => Buffer.from(value).toString('hex') },
  { name: 'percent-encoded', write: (value) => bytes(value, (byte) => `%${byte.toString(16).padStart(2, '0')}`) },
  { name: 'in entities', write: (value) => bytes(value, (byte) => `&#${byte};`) },
  { name: 'in hex entities', write: (value) => bytes(value, (byte) => `&#x${byte.toString(16)};`) },
  { name: 'in decimal codes', write: (value) => bytes(value, String, ' ') },
  { name: 'in escapes', write: (value) => bytes(value, (byte) => `\\u${byte.toString(16).padStart(4, '0')}`) },
  { name: 'letter by letter', write: (value) => Array.from(value.replaceAll(' ', '')).join(' ') },
]

/** Spellings of a value in groups. */
export const GROUP_SPELLINGS: readonly Spelling[] = [
  { name: 'with NBSP', write: (value) => separated(value, '\u00a0') },
  { name: 'with narrow spaces', write: (value) => separated(value, '\u202f') },
  { name: 'with the spaces of a PDF', write: (value) => separated(value, '  ') },
  { name: 'with en dashes', write: (value) => separated(value, '–') },
  { name: 'with non-breaking hyphens', write: (value) => separated(value, '\u2011') },
  { name: 'with minus signs', write: (value) => separated(value, '−') },
  { name: 'with dots', write: (value) => separated(value, '.') },
  { name: 'with middle dots', write: (value) => separated(value, '·') },
  { name: 'with low lines', write: (value) => separated(value, '_') },
  { name: 'with slashes', write: (value) => separated(value, '/') },
  { name: 'over two lines', write: (value) => value.replace(/[ -](?=[^ -]*[ -]?[^ -]*$)/, '\n') },
  { name: 'over two lines, after its separator', write: (value) => value.replace(/[ -](?=[^ -]*$)/, '$&\n') },
  { name: 'over two lines of a quotation', write: (value) => value.replace(/[ -](?=[^ -]*$)/, '\r\n> ') },
  {
    name: 'in Arabic digits',
    write: (value) => value.replace(/\d/g, (one) => String.fromCharCode(0x660 + Number(one))),
  },
  {
    name: 'in bold digits',
    write: (value) => value.replace(/\d/g, (one) => String.fromCodePoint(0x1d7ce + Number(one))),
  },
  { name: 'after a joined word', write: (value) => `number${value}` },
  { name: 'before a joined word', write: (value) => `${value}please` },
]

/** Spellings of an e-mail address. */
export const ADDRESS_SPELLINGS: readonly Spelling[] = [
  { name: 'with a wide @', write: (value) => value.replace('@', '＠') },
  { name: 'with a small @', write: (value) => value.replace('@', '﹫') },
  { name: 'with (at) and (dot)', write: (value) => value.replace('@', ' (at) ').replaceAll('.', ' (dot) ') },
  { name: 'with [at]', write: (value) => value.replace('@', '[at]') },
  { name: 'with blanks around the @', write: (value) => value.replace('@', '\u00a0@\u00a0') },
  { name: 'broken after the @', write: (value) => value.replace('@', '@\n') },
  { name: 'broken before the @', write: (value) => value.replace('@', '\n@') },
  { name: 'broken in its domain', write: (value) => value.replace('.org', '.\norg') },
  { name: 'broken in a label', write: (value) => value.replace('ical.org', '\nical.org') },
  { name: 'with look-alikes', write: (value) => value.replace('a', 'а').replace(/o(?=[^o]*$)/, 'о') },
]

/** Spellings of a token. */
export const TOKEN_SPELLINGS: readonly Spelling[] = [
  { name: 'reversed', write: (value) => Array.from(value).reverse().join('') },
  {
    name: 'in ROT13',
    write: (value) =>
      value.replace(/[a-z]/gi, (one) => {
        const base = one <= 'Z' ? 65 : 97
        return String.fromCharCode(((one.charCodeAt(0) - base + 13) % 26) + base)
      }),
  },
  { name: 'in base64 twice', write: (value) => Buffer.from(Buffer.from(value).toString('base64')).toString('base64') },
  { name: 'in base64 over lines', write: (value) => Buffer.from(value).toString('base64').replace(/.{20}/g, '$&\n') },
]
