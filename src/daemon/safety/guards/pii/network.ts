import ipaddr from 'ipaddr.js'
import { type Digits, isDigit, isWordCode, type Recognizer, type Report, wordStart } from './recognizer.ts'

const URL_CHARS = 2_000
const SCHEMES = new Set(['http', 'https', 'ftp'])
const BARE_URL = 'www.'
const HOST = /^(?:[\p{L}\d-]{1,63}\.){1,10}[\p{L}\d-]{2,63}(?![\p{L}\d-])|^(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}/u
const URL_BEGINNINGS = /(?<!\w)(?:https?:?\/?|ftp:?\/?|www)$/i

const IPV4 = /(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)/y
const IPV6_CHARS = 45
const MAC =
  /[\dA-Fa-f]{2}([:-])[\dA-Fa-f]{2}(?:\1[\dA-Fa-f]{2}){4}(?:(?:\1[\dA-Fa-f]{2}){2})?(?![\w]|[:-][\dA-Fa-f])|[\dA-Fa-f]{4}(?:\.[\dA-Fa-f]{4}){2}(?!\w|\.\w)/y
const MAC_CHARS = 23

/** Finds IP and MAC addresses, and URLs that begin with a scheme or `www.`. */
export const networkRecognizer: Recognizer = {
  entities: ['URL', 'IP_ADDRESS', 'MAC_ADDRESS'],
  scan(text, digits, wanted, report) {
    return Math.min(
      wanted.has('URL') ? scanUrls(text, report) : text.length,
      wanted.has('IP_ADDRESS') ? Math.min(scanIpv4(text, digits, report), scanIpv6(text, report)) : text.length,
      wanted.has('MAC_ADDRESS') ? scanMacs(text, report) : text.length,
    )
  },
}

function scanUrls(text: string, report: Report): number {
  const tail = text.slice(-8)
  const beginning = URL_BEGINNINGS.exec(tail)
  let open = beginning ? text.length - tail.length + beginning.index : text.length
  let free = 0
  const read = (start: number, host: number) => {
    const end = urlEnd(text, host)
    if (end === text.length && end - host < URL_CHARS) open = Math.min(open, start)
    if (HOST.test(text.slice(host, Math.min(end, host + 256)))) report(start, trimmedEnd(text, host, end), 'URL', 0.9)
    free = end
  }
  for (let at = text.indexOf('://'); at >= 0; at = text.indexOf('://', Math.max(free, at + 3))) {
    const start = wordStart(text, at)
    if (at - start <= 5 && SCHEMES.has(text.slice(start, at).toLowerCase())) read(start, at + 3)
  }
  free = 0
  for (let at = text.indexOf(BARE_URL); at >= 0; at = text.indexOf(BARE_URL, Math.max(free, at + 4))) {
    const before = text.charCodeAt(at - 1)
    if (!isWordCode(before) && text[at - 1] !== '/' && text[at - 1] !== '.') read(at, at + BARE_URL.length)
  }
  return open
}

function urlEnd(text: string, from: number): number {
  let end = from
  while (end < text.length && end - from < URL_CHARS && !isUrlBorder(text.charCodeAt(end))) end++
  return end
}

/** Whether the character ends a URL: whitespace, controls, quotes, angle brackets, braces, backslash. */
function isUrlBorder(code: number): boolean {
  return (
    code <= 32 ||
    code === 34 ||
    code === 60 ||
    code === 62 ||
    code === 92 ||
    code === 96 ||
    (code >= 123 && code <= 125)
  )
}

/** Removes trailing punctuation. A closing bracket is kept if the address contains the opening bracket. */
function trimmedEnd(text: string, from: number, end: number): number {
  let trimmed = end
  while (trimmed > from && '.,;:!?\'")]*'.includes(text[trimmed - 1]!)) {
    if (text[trimmed - 1] === ')' && text.slice(from, trimmed).includes('(')) break
    trimmed--
  }
  return trimmed
}

function scanIpv4(text: string, digits: Digits, report: Report): number {
  let open = text.length
  for (let digit = digits.next(0); digit >= 0; ) {
    let end = digit
    while (end < text.length && (isDigit(text.charCodeAt(end)) || text[end] === '.')) end++
    const before = text[digit - 1]
    if (!isWordCode(text.charCodeAt(digit - 1)) && before !== '.' && before !== '-') {
      if (end + 2 > text.length && text.length - digit <= 18) open = Math.min(open, digit)
      IPV4.lastIndex = digit
      const address = IPV4.exec(text)?.[0]
      const isVersion = /(?:\bv|version|ver\.|release)[ :=]{0,2}$/i.test(text.slice(Math.max(0, digit - 10), digit))
      if (
        address !== undefined &&
        !isVersion &&
        ipaddr.IPv4.isValidFourPartDecimal(address) &&
        !isOwnMachine(address)
      ) {
        report(digit, digit + address.length, 'IP_ADDRESS', 0.9)
      }
    }
    digit = digits.next(end + 1)
  }
  return open
}

function scanIpv6(text: string, report: Report): number {
  let open = text.length
  let free = 0
  // The start of the text's last group, if a colon after this group could make the group part of an address.
  let tail = text.length
  while (tail > 0 && text.length - tail <= 4 && isHex(text.charCodeAt(tail - 1))) tail--
  if (text.length - tail <= 4 && !isWordCode(text.charCodeAt(tail - 1))) open = tail
  for (let colon = text.indexOf(':'); colon >= 0; colon = text.indexOf(':', Math.max(free, colon + 1))) {
    let start = colon
    while (start > free && colon - start <= 4 && isHex(text.charCodeAt(start - 1))) start--
    let end = colon
    while (end < text.length && isIpv6(text.charCodeAt(end))) end++
    free = end
    if (colon - start > 4 || isWordCode(text.charCodeAt(start - 1)) || text[start - 1] === ':') continue
    if (end + 1 > text.length && end - start <= IPV6_CHARS) open = Math.min(open, start)
    if (end - start > IPV6_CHARS + 1 || isWordCode(text.charCodeAt(end))) continue
    while (end > start && (text[end - 1] === '.' || (text[end - 1] === ':' && text[end - 2] !== ':'))) end--
    if (isLikelyIpv6(text.slice(start, end))) report(start, end, 'IP_ADDRESS', 0.9)
  }
  return open
}

/** Whether the address is 127.x.x.x or 0.0.0.0, which every machine has. It identifies no person. */
function isOwnMachine(address: string): boolean {
  return address.startsWith('127.') || address === '0.0.0.0'
}

/**
 * Whether the text is a plausible IPv6 address. A shortened address must meet further conditions, because `a::b` is
 * also a name in many programming languages.
 */
function isLikelyIpv6(address: string): boolean {
  const colons = address.split(':').length - 1
  if (colons < 2 || !(colons >= 6 || address.includes('::')) || !ipaddr.IPv6.isValid(address)) return false
  if (!address.includes('::')) return true
  const groups = address.split(':').filter((group) => group !== '')
  return (
    /^::(?:1|ffff:.+)$|^(?:[23][0-9a-f]{3}|fe80|f[cd][0-9a-f]{2}|ff0[0-9a-f]):/i.test(address) ||
    (groups.length >= 3 && /\d/.test(address))
  )
}

function scanMacs(text: string, report: Report): number {
  let open = text.length
  for (let index = 0; index < text.length; ) {
    if (
      !isHex(text.charCodeAt(index)) ||
      isWordCode(text.charCodeAt(index - 1)) ||
      ':-.'.includes(text[index - 1] ?? ' ')
    ) {
      index++
      continue
    }
    let end = index
    while (end < text.length && end - index <= MAC_CHARS && isMac(text.charCodeAt(end))) end++
    if (end + 1 >= text.length && end - index <= MAC_CHARS) open = Math.min(open, index)
    MAC.lastIndex = index
    const address = end - index >= 14 ? MAC.exec(text)?.[0] : undefined
    if (address !== undefined) report(index, index + address.length, 'MAC_ADDRESS', 0.9)
    index = Math.max(end, index + 1)
  }
  return open
}

function isHex(code: number): boolean {
  return isDigit(code) || (code >= 97 && code <= 102) || (code >= 65 && code <= 70)
}

function isIpv6(code: number): boolean {
  return isHex(code) || code === 58 || code === 46
}

function isMac(code: number): boolean {
  return isHex(code) || code === 58 || code === 45 || code === 46
}
