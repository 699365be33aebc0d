import { characterSet, has, LETTER, NAME, WORD } from './characters.ts'
import { isPlaceholder, isWordy, looksRandom, RANDOM_CHARS } from './randomness.ts'

/** A value whose name (such as `password`) shows that the value is secret. */
export type KeyedValue = { start: number; end: number; type: 'password' | 'keyed-secret' }

/** The maximum distance between a name and its value. */
const NAME_REACH = 96
/** The maximum length of a value in quotes. */
export const QUOTED_CHARS = 256

/** The characters between a name and its value: whitespace, quotes, brackets and assignment operators. */
const GLUE = characterSet(' \t"\'`\\@!?[]()=:,>')
const GLUE_CHARS = 40
const QUOTES = characterSet('"\'`')
const GLUE_QUOTES = 3
const NAME_CHARS = 64

type NameBefore = { name: string; glue: string }

/**
 * Returns the name before the value that begins at `at`, as in `password = `, `"password": `, `login', ` or `:password
 * => `.
 */
function nameBefore(text: string, at: number): NameBefore | undefined {
  let end = at
  let quotes = 0
  const first = Math.max(0, at - GLUE_CHARS)
  while (end > first && quotes < GLUE_QUOTES && has(GLUE, text.charCodeAt(end - 1))) {
    end -= 1
    if (has(QUOTES, text.charCodeAt(end))) quotes += 1
  }
  let start = end
  const last = Math.max(0, end - NAME_CHARS)
  while (start > last && has(NAME, text.charCodeAt(start - 1))) start -= 1
  if (start === end || end === at) return undefined
  return { name: text.slice(start, end), glue: text.slice(end, at) }
}

/** The characters that assign a quoted or an unquoted value. */
const ASSIGNS = /[=:(]/
const ASSIGNS_BARE = /^["'\\]{0,2}[ \t]{0,8}(?::=|\?=|=>|[=:])[ \t]{0,16}$/

/** Names of passwords. The word must end the name, so `passwordLabel` does not match. */
const PASSWORD_NAME =
  /(?:pass(?:word|wd|phrase|code|wort)|pwd|psw|contrase[nñ]a|mot_?de_?passe|kennwort|senha|securestring|(?:^|[\d_.-]|db|user|usr|admin|root|smtp|mail|ftp|ssh|sql|pg|redis|mongo|ldap|proxy|login|auth|http|server|my|app|key|store)pass)[\d_]{0,3}$/i
const SECRET_NAME =
  /(?:secret|token|api_?key|apikey|(?:access|account|auth|private|shared_?access|encryption|signing|license|client|master|storage|service|admin|session|security|deploy|insert|secret)[._-]?key(?:[._-]?base)?|[a-z\d]{3}(?<!public|cache|primary|foreign|partition|object|idempotency|index|parent|sort|group|storage|hash|host|cell|trans|meta)_key|credentials?|auth|pat|creds)[\d_]{0,3}$/i

/** Matches references to a value that is stored elsewhere, and general words that are not a value. */
const REFERENCE =
  /^(?:[$%@#&!*?~^|=+:/-]|\{|<|\(|env[.[(]|process\.|os\.|self\.|this\.|config\.|args?\.|var\.|vault:|arn:|https?:|file:)|[${<]\{|\}\}|%[sdv(]|[()[\]]|\w(?:->|\?\.|::)\w/i
const GENERIC_VALUE =
  /^(?:(?:[a-z]{1,12}[ _-]|my|your|the|db|user|new|old|test|app|admin|root|client|access|api)?(?:pass(?:word|wd)?|pwd|secret|token|credentials?)|string|text|str|none|null|nil|undefined|true|false|yes|no|on|off|hidden|required|optional|default|auto|empty|value|test|field|input|off|basic|bearer|any|number|boolean|bytes|function|object|symbol|admin|root|user(?:name)?|api[_-]?key|key|x+|\*+)$/i

/** Returns the value in the quotes that open at `at`, if the text before them names a secret. */
export function quotedValueAt(text: string, at: number): KeyedValue | undefined {
  const type = typeOfQuoted(text, at)
  if (type === undefined) return undefined
  const start = at + 1
  const end = endOfQuoted(text, at)
  if (end === undefined || !mayBeSecret(text.slice(start, end), type === 'password', true)) return undefined
  return { start, end, type }
}

/** Whether the quotes that open at `at` may contain a secret, and later text may still close them. */
export function quotedIsOpen(text: string, at: number): boolean {
  if (text.length - at > QUOTED_CHARS + 1 || endOfQuoted(text, at) !== undefined) return false
  return !text.includes('\n', at + 1) && typeOfQuoted(text, at) !== undefined
}

/** Returns the type of the value in the quotes that open at `at`. The value's name determines the type. */
function typeOfQuoted(text: string, at: number): KeyedValue['type'] | undefined {
  const nearest = nameBefore(text, at)
  if (nearest === undefined) return undefined
  const isIndirect = nearest.name === 'is' || nearest.name === 'value'
  // In "The password is …" and `key="Password" value="…"`, the name is before "is" and "value".
  const before = isIndirect ? nameBefore(text, at - nearest.glue.length - nearest.name.length) : nearest
  if (before === undefined) return undefined
  const { name, glue } = before
  if (glue.includes(',')) return isFirstArgument(text, at, before) ? typeOfName(name) : undefined
  if (ASSIGNS.test(glue) || (isIndirect && nearest.name === 'value')) return typeOfName(name)
  // Without an assignment operator, only passwords are accepted: `password "…"`, as in build files.
  return name.length >= 6 && glue.trim() === '' && typeOfName(name) === 'password' ? 'password' : undefined
}

/** Matches the text between the first two arguments of a call, if both are in quotes. */
const NEXT_ARGUMENT = /^["'`]\s*,\s*$/

/** Whether the name is the first argument of a call, and the value is the second: `define('DB_PASSWORD', '…')`. */
function isFirstArgument(text: string, at: number, { name, glue }: NameBefore): boolean {
  const start = at - glue.length - name.length
  return NEXT_ARGUMENT.test(glue) && has(QUOTES, text.charCodeAt(start - 1)) && text[start - 2] === '('
}

/** The last two letters of names of passwords and secrets. */
const NAME_ENDINGS = new Set('rd wd ss se de rt sw na ha et en ey al ls ds th at ng'.split(' ').map(pairOf))

/** Encodes the last two letters of a text as a number, ignoring case. */
function pairOf(text: string): number {
  const { length } = text
  return (text.charCodeAt(length - 2) | 0x20) * 128 + (text.charCodeAt(length - 1) | 0x20)
}

/**
 * Whether a name may be the name of a secret, judged by its last two letters. Names that end with a digit or symbol
 * always pass.
 */
const mayBeNamed = (name: string): boolean =>
  name.length >= 2 && (!has(LETTER, name.charCodeAt(name.length - 1)) || NAME_ENDINGS.has(pairOf(name)))

function typeOfName(name: string): KeyedValue['type'] | undefined {
  if (!mayBeNamed(name)) return undefined
  if (PASSWORD_NAME.test(name)) return 'password'
  return SECRET_NAME.test(name) ? 'keyed-secret' : undefined
}

/**
 * Returns the end of the quotes that open at `at`. Returns undefined if the quotes are not closed on this line, or if
 * the value is too long.
 */
function endOfQuoted(text: string, at: number): number | undefined {
  const start = at + 1
  const rest = text.slice(start, start + QUOTED_CHARS)
  const chars = rest.indexOf(text.charAt(at))
  const lineEnd = rest.indexOf('\n')
  if (chars < 0 || (lineEnd >= 0 && lineEnd < chars)) return undefined
  return rest[chars - 1] === '\\' ? start + chars - 1 : start + chars
}

/** Returns the unquoted value from `start` to `end`, if the text before it names a secret. */
export function bareValueAt(text: string, start: number, end: number): KeyedValue | undefined {
  const before = nameBefore(text, start)
  if (before === undefined || !ASSIGNS_BARE.test(before.glue)) return undefined
  const { name, glue } = before
  const type = typeOfName(name)
  if (type === undefined) return undefined
  // Text that is followed by a call, an index or a template is code, not a value.
  if (CALLS.test(text[end] ?? '')) return undefined
  const value = text.slice(start, end)
  const isPassword = type === 'password'
  const found: KeyedValue = { start, end, type }
  const previous = text[start - glue.length - name.length - 1]
  // In a connection string (`Server=db;Password=secret`) and in a query (`?token=secret`), the value is always literal.
  if (glue === '=' && (previous === ';' || previous === '&' || previous === '?')) {
    const isWhole = previous === ';' && text[end] === ';' && isPassword && /^[\w!#%^&*+@-]{4,}$/.test(value)
    return isWhole || isLiteralMember(value, isPassword) ? found : undefined
  }
  if (isCodeBefore(text[end]) && isVariableOfSecret(value)) return undefined
  // Environment variables and HTTP headers hold literal values.
  const isLiteral = (glue === '=' && name === name.toUpperCase()) || (glue === ': ' && HEADER_NAME.test(name))
  return mayBeSecret(value, isPassword, isLiteral) ? found : undefined
}

/** Whether the value of a member of a connection string or of a query is a secret. */
const isLiteralMember = (value: string, isPassword: boolean): boolean =>
  !isGenericValue(value) &&
  (isPassword ? value.length >= 4 : value.length >= 8 && /\d/.test(value) && /[A-Za-z]/.test(value))

/**
 * Returns the content of the XML element whose start tag ends before `start`, if the name of the element names a secret:
 * `<password>…</password>`.
 */
export function elementValueAt(text: string, start: number, end: number): KeyedValue | undefined {
  const nameEnd = start - 1
  let nameStart = nameEnd
  while (nameStart > nameEnd - NAME_CHARS && has(NAME, text.charCodeAt(nameStart - 1))) nameStart -= 1
  const opens = text[nameStart - 1]
  if (nameStart === nameEnd || (opens !== '<' && opens !== ':')) return undefined
  const type = typeOfName(text.slice(nameStart, nameEnd))
  const value = text.slice(start, end)
  return type !== undefined && isLiteralMember(value, type === 'password') ? { start, end, type } : undefined
}

/** Names of HTTP headers, such as `Api-Token`. */
const HEADER_NAME = /^[A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)+$/

/** Whether the character after a value shows that the value is part of a statement or a list of a program. */
const isCodeBefore = (char: string | undefined): boolean => char === ';' || char === ',' || char === ')'

/** Names of variables for secrets: `password2`, `userToken1`, `new_secret_1`. */
const isVariableOfSecret = (value: string): boolean =>
  /^[A-Za-z_]\w*$/.test(value) &&
  (/[a-z][A-Z]|_/.test(value) ||
    /pass|pwd|token|secret|key|auth|user|value|field|input|param|arg|str|hash/i.test(value))

/** Characters that make the preceding name a call, an index or a template. */
const CALLS = /[([{<`]/

/** The minimum number of symbols in a password that contains spaces. Sentences have fewer symbols. */
const MANY_SIGNS = /^(?:[^!#$%^&*+=@|~<>{}[\]]{0,16}[!#$%^&*+=@|~<>{}[\]]){6}/

/** Whether a text in base64 contains a name and a password (RFC 7617). */
export function isBasicCredentials(value: string): boolean {
  const decoded = Buffer.from(value, 'base64').toString('latin1')
  return /^[\x20-\x39\x3b-\x7e]+:[\x20-\x7e]+$/.test(decoded) && !/:(?:pass(?:word)?|x+|\*+)$/i.test(decoded)
}

/** Whether a value is a placeholder, a general word, or a reference to a value that is stored elsewhere. */
export const isGenericValue = (value: string): boolean =>
  REFERENCE.test(value) || GENERIC_VALUE.test(value) || isPlaceholder(value)

/**
 * Whether the value may be a secret. A plain word counts only if `literal` is true; otherwise, the word may be a
 * variable name.
 */
function mayBeSecret(value: string, isPassword: boolean, literal: boolean): boolean {
  if (literal && value.length >= 32 && MANY_SIGNS.test(value) && !/[${]\{/.test(value)) return true
  if (value.length < (isPassword ? 4 : 8) || value.includes(' ')) return false
  if (isGenericValue(value)) return false
  if (isPassword && literal) return true
  if (literal && value.length >= 12 && /^\w+[#!^~]\w+$/.test(value)) return true
  if (!/\d/.test(value) || !/[A-Za-z]/.test(value)) return false
  if (isPassword) return !/^\w+\.\w/.test(value)
  if (literal && /^[\w+/]{8,}={1,2}$/.test(value) && isBasicCredentials(value)) return true
  if (value.length < RANDOM_CHARS) return literal
  return !isWordy(value) || (literal && value.length >= 20 && /\d{2}/.test(value) && !value.includes('/'))
}

/** Matches `curl -u name:password` and `--user "name:password"`. */
const CREDENTIALS_FLAG = /(?:^|\s)(?:-u|--user)[ =]["']?[\w.@+-]{1,64}$/

/** Returns the password after the colon at `at`, in a `name:password` argument of a program. */
export function programPasswordAt(text: string, at: number, end: number): KeyedValue | undefined {
  const start = at + 1
  if (end - start < 4 || !CREDENTIALS_FLAG.test(text.slice(Math.max(0, at - NAME_REACH), at))) return undefined
  const value = text.slice(start, end)
  if (REFERENCE.test(value) || isPlaceholder(value)) return undefined
  return { start, end, type: 'password' }
}

/** Words, in any naming style, that mark a nearby long random text as a secret. */
const NAMED_NEAR =
  /(?:(?<![A-Za-z]|[Pp]ublic[_ -]|cache[_ -])[Kk]ey|(?<=[a-z_])Key|KEY|(?<=api|access|private|secret|signing|license|auth|client|account|shared|master|service|app|user|admin|deploy|dev|encryption)key|[Tt]oken|TOKEN|[Ss]ecret|SECRET|[Aa]ccess|ACCESS|PRIVATE|[Pp]rivate|[Pp]assw(?:or)?d|PASSW(?:OR)?D|PASS|(?<![a-z])pass|PWD|pwd|[Cc]redential|CREDENTIAL|AUTH|(?<![Oo])[Aa]uth(?:orization)?(?!or)|[Bb]earer|[Bb]asic|BEARER|[Ll]ogin|(?<![A-Za-z])sig|[Ll]icense|(?<![a-z])pat(?![a-z])|PAT|-u(?= )|--user(?= ))(?![a-z]{3}|[_-]?[Ii][Dd](?![a-z])|s?\.[a-z]{1,16}\()/g

/** The maximum distance between the word and the secret. */
const NEAR_CHARS = 28

const LONGEST_WORD = 16

/** Finds the words of NAMED_NEAR from left to right, in at most one pass over the text. */
export class NamingWords {
  readonly #text: string
  /** The end of the last word found before `limit`, and the end of the next word. */
  #last = Number.NEGATIVE_INFINITY
  #next = 0

  constructor(text: string) {
    this.#text = text
  }

  /**
   * Returns the end of the last word before `limit`, if it is at most NAME_REACH before `limit`. `limit` must increase
   * from call to call.
   */
  lastBefore(limit: number): number | undefined {
    while (this.#next <= limit) {
      if (this.#next > 0) this.#last = this.#next
      NAMED_NEAR.lastIndex = Math.max(this.#next, limit - NAME_REACH - LONGEST_WORD)
      this.#next = NAMED_NEAR.test(this.#text) ? NAMED_NEAR.lastIndex : Number.POSITIVE_INFINITY
    }
    return limit - this.#last <= NAME_REACH ? this.#last : undefined
  }
}

/**
 * Returns the long random text in the run from `start` to `end`, if a nearby word marks this text as a secret. The word
 * may also be part of the run, as in `SERVICE_TOKEN=…` and `serviceSECRET-…`.
 */
export function namedRandom(text: string, words: NamingWords, start: number, end: number): KeyedValue | undefined {
  const named = words.lastBefore(Math.min(end - RANDOM_CHARS + 1, start + NAME_REACH))
  if (named === undefined) return undefined
  let value = Math.max(start, named)
  if (value - named > NEAR_CHARS) return undefined
  value = afterSeparators(text, value, end)
  const stop = endOfValue(text, value, end)
  if (stop - value < RANDOM_CHARS) return undefined
  const found = text.slice(value, Math.min(stop, value + 256))
  // An address of the web without parameters, a resource of AWS, and the name of a function are not secret.
  if (text.startsWith('//', value) || text.startsWith('arn:', start) || text[stop] === '(') return undefined
  if (!looksRandom(found) || isPlaceholder(found) || isWordy(found)) return undefined
  return { start: value, end: stop, type: 'keyed-secret' }
}

/** Skips the last `=`, `:` or `?` before the random part, and any hyphens. */
function afterSeparators(text: string, at: number, end: number): number {
  let value = at
  for (let look = at; look < Math.min(end, at + 48); look += 1) {
    const char = text[look]
    if ((char === '=' || char === ':' || char === '?') && look + RANDOM_CHARS < end) value = look + 1
  }
  while (value < end && !has(WORD, text.charCodeAt(value)) && text[value] !== '+' && text[value] !== '/') value += 1
  return value
}

/** Returns the end of the value. Another parameter, or the end of a sentence, may follow the value in the same run. */
function endOfValue(text: string, start: number, end: number): number {
  let stop = start
  while (stop < end && text[stop] !== '&' && text[stop] !== '@' && text[stop] !== '?') stop += 1
  while (stop > start && (text[stop - 1] === '.' || text[stop - 1] === ':')) stop -= 1
  return stop
}
