import { isAsciiLetter, isDigit, type Recognizer } from './recognizer.ts'

/** Names of role mailboxes: RFC 2142, and other common ones. */
const ROLES = new Set(
  (
    'abuse billing careers contact customerservice enquiries feedback ftp help helpdesk hostmaster info inquiries jobs ' +
    'marketing news newsletter noc office postmaster press privacy sales security service support team webmaster www ' +
    'noreply no-reply no_reply donotreply do-not-reply do_not_reply'
  ).split(' '),
)
const TEAM = /[-._]team$/

/** RFC 5321, 4.5.3.1. */
const LOCAL_CHARS = 64
const DOMAIN_CHARS = 253
const LABEL_CHARS = 63
const TOP_LEVEL = /^(?:[a-z]{2,24}|xn--[a-z0-9-]{2,59}|[\u00c0-\uffef]{2,24})$/i
/** File extensions that are not top-level domains, such as `png` in `icon@2x.png`. */
const FILE_ENDINGS =
  /^(?:png|jpe?g|gif|svg|webp|avif|ico|js|jsx|mjs|cjs|tsx?|css|scss|json|html?|xml|yaml|yml|txt|pdf|lock|tgz)$/i

/**
 * Finds addresses by their `@`. Supports non-ASCII letters (RFC 6531) and RFC 5322, except quotes and comments.
 * @param ofRoles whether to include addresses that do not identify a person, such as contact@
 */
export function emailRecognizer(ofRoles: boolean): Recognizer {
  return {
    entities: ['EMAIL'],
    scan(text, _digits, _wanted, report) {
      let open = localStart(text, text.length, 0)
      let free = 0
      for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
        const start = localStart(text, at, free)
        if (start === at) continue
        const end = domainEnd(text, at + 1)
        if (end === text.length) open = Math.min(open, start)
        const domain = trimmedDomain(text.slice(at + 1, end))
        if (domain === undefined || text[at - 1] === '.') continue
        free = at + 1 + domain.length
        if (ofRoles || !isRole(text.slice(start, at))) report(start, free, 'EMAIL', 0.97)
      }
      return open
    },
  }
}

/**
 * Returns the start of an address whose domain may continue after the end of the text. Returns `text.length` if there
 * is no such address.
 */
export function openEmailFrom(text: string): number {
  const from = Math.max(0, text.length - DOMAIN_CHARS - 1)
  for (let at = text.indexOf('@', from); at >= 0; at = text.indexOf('@', at + 1)) {
    const start = localStart(text, at, 0)
    if (start < at && domainEnd(text, at + 1) === text.length) return start
  }
  return text.length
}

/** Whether a local part names a role mailbox. The part after a plus sign is ignored. */
function isRole(local: string): boolean {
  const [name = ''] = local.toLowerCase().split('+', 1)
  return ROLES.has(name) || TEAM.test(name)
}

/** Returns the start of the local part that ends before `at`. Returns `at` if the local part is missing or too long. */
function localStart(text: string, at: number, from: number): number {
  let start = at
  while (start > from && isLocal(text.charCodeAt(start - 1))) {
    if (at - start > LOCAL_CHARS) return at
    start--
  }
  while (start < at && !isLetterOrDigit(text.charCodeAt(start)) && text[start] !== '_') start++
  return at - start > LOCAL_CHARS ? at : start
}

function domainEnd(text: string, from: number): number {
  let end = from
  while (end < text.length && end - from <= DOMAIN_CHARS && isDomain(text.charCodeAt(end))) end++
  return end
}

/**
 * Removes trailing separators, and returns the rest if it is a valid domain. A domain needs at least two labels, and
 * must not end in a file extension.
 */
function trimmedDomain(written: string): string | undefined {
  const domain = written.replace(/[-._]{1,253}$/, '')
  const labels = domain.split('.')
  const last = labels.at(-1)!
  if (labels.length < 2 || domain.length > DOMAIN_CHARS || !TOP_LEVEL.test(last) || FILE_ENDINGS.test(last))
    return undefined
  const isSound = (label: string) => label !== '' && label.length <= LABEL_CHARS && !/^[-_]|-$/.test(label)
  return labels.every(isSound) ? domain : undefined
}

function isLetterOrDigit(code: number): boolean {
  return isAsciiLetter(code) || isDigit(code) || (code >= 0xc0 && code <= 0x24f)
}

/**
 * Accepts letters, digits and `. _ % + - '`. RFC 5322 allows more characters, but when these precede an address, they
 * are usually not part of it.
 */
function isLocal(code: number): boolean {
  return isLetterOrDigit(code) || code === 46 || code === 95 || code === 37 || code === 43 || code === 45 || code === 39
}

/** Accepts letters of any script, digits, and `. - _`. */
function isDomain(code: number): boolean {
  return isAsciiLetter(code) || isDigit(code) || code === 46 || code === 45 || code === 95 || isWideLetter(code)
}

/** Accepts non-ASCII letters, but not the punctuation of other scripts (U+2000–206F, U+3000–303F, U+FF00–FF0F). */
function isWideLetter(code: number): boolean {
  return (code >= 0xc0 && code < 0x2000) || (code > 0x3040 && code < 0xd800)
}
