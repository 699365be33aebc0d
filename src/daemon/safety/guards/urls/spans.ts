// Finds the addresses in a model's answer: in Markdown, in HTML and in plain text. Takes time linear in the length.
import { remembering } from '../detection.ts'

/**
 * The position of an address. `picture`: a client loads it without a click. `target`: the target of a link. `bare`: an
 * address in plain text, which many clients turn into a link. `isOpen`: more text may belong to it.
 */
export type UrlSpan = { start: number; end: number; kind: 'picture' | 'target' | 'bare'; isOpen: boolean }

/** The maximum length of an address. Text beyond this length does not belong to it. */
export const URL_CHARS = 2_048
/** How far before an address its Markdown or HTML is searched. Less than DETECTION_CONTEXT_CHARS. */
const LOOK_BACK_CHARS = 200
const GAP_CHARS = 8

const ATTRIBUTES = 'src|href|poster|background|data|action|formaction|ping|xlink:href'
/** Matches where an address begins, or what stands directly before the target of a link. */
const BEGINNING = new RegExp(
  [
    String.raw`(?<bare>(?:https?|ftps?|wss?):[\\/]{2}|www\.(?=[\p{L}\p{N}]))`,
    String.raw`(?<markdown>\][(:]\s{0,${GAP_CHARS}})`,
    String.raw`(?<attribute>(?<![\w-])(?:${ATTRIBUTES})\s{0,${GAP_CHARS}}=\s{0,${GAP_CHARS}})`,
    String.raw`(?<style>(?<![\w-])url\(\s{0,${GAP_CHARS}})`,
    // Without a scheme, only common endings count: many file names look like hosts.
    String.raw`(?<host>(?<![\p{L}\p{N}@./_-])(?:[a-z0-9_-]{1,63}\.){1,8}(?:com|net|org|info|biz|io|ai|dev|app|xyz|top|site|online|live|cloud|link|click|shop|store|club|tech|space|fun|icu|co|me|cc|tv|ws|to|gg|ru|cn|de|uk|fr|nl|eu|us|in|br|jp)(?=[/?]))`,
  ].join('|'),
  'giu',
)
/** Matches what every match of BEGINNING contains. Nearly all prose has none of it. */
const MARK = /:[\\/]|\][(:]|=|\burl\(|www\.|\.[a-z\u017f\u212a]{2,6}[/?]/i
/** Characters that end an address in plain text. */
const BARE_END = /[\s<>"'`{}|^[\]，。、；：！？（）「」『』【】《》…\u{e0000}-\u{e007f}]/gu
/** Punctuation after an address, which does not belong to it. */
const TRAILING = /[.,;:!?*_~\\)]$/
/** Matches text that may become the beginning of an address in plain text. */
const UNFINISHED =
  /(?:h(?:t(?:t(?:ps?(?::[\\/]?)?)?)?)?|f(?:t(?:ps?(?::[\\/]?)?)?)?|w(?:ss?(?::[\\/]?)?|ww?\.?)?|(?<![\p{L}\p{N}@./_-])[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{0,63}){0,8})$/iu
const UNFINISHED_CHARS = 600
/** An HTML tag whose pictures and frames a client loads without a click. */
const LOADING_TAG = /^<(?:img|image|source|video|audio|iframe|frame|embed|object|input|body|table|td|th|picture|a)\b/i
const PICTURE_ATTRIBUTE = /^(?:src|poster|background|data|ping)/i

/** Whether the text has a mark of an address: a cheap test that nearly all prose fails. */
export const mayContainUrl = (text: string): boolean => MARK.test(text)

/** Returns the addresses in a text, ordered and without overlap. Only the last one may be open. */
export const urlSpans = remembering(readSpans)

function readSpans(text: string): readonly UrlSpan[] {
  const spans: UrlSpan[] = []
  if (!mayContainUrl(text)) return spans
  BEGINNING.lastIndex = 0
  for (let match = BEGINNING.exec(text); match; match = BEGINNING.exec(text)) {
    const span = spanAt(text, match)
    if (!span) continue
    spans.push(span)
    BEGINNING.lastIndex = Math.max(span.end, BEGINNING.lastIndex)
  }
  return spans
}

/** Returns the start of text that may become an address in plain text, or `text.length` if there is none. */
export function unfinishedFrom(text: string): number {
  const from = Math.max(0, text.length - UNFINISHED_CHARS)
  const match = UNFINISHED.exec(text.slice(from))
  return match ? from + match.index : text.length
}

function spanAt(text: string, match: RegExpExecArray): UrlSpan | undefined {
  const { markdown, attribute, style } = match.groups ?? {}
  const after = match.index + match[0].length
  if (markdown !== undefined) return targetAt(text, after, isPicture(text, match.index) ? 'picture' : 'target', ')')
  const tag = attribute === undefined && style === undefined ? undefined : tagBefore(text, match.index)
  if (style !== undefined) return tag === undefined ? undefined : targetAt(text, after, 'picture', ')')
  if (attribute !== undefined) {
    if (tag === undefined) return undefined
    const loads = PICTURE_ATTRIBUTE.test(attribute) && LOADING_TAG.test(tag)
    return targetAt(text, after, loads ? 'picture' : 'target', '>')
  }
  return bareAt(text, match.index, after)
}

function bareAt(text: string, start: number, from: number): UrlSpan {
  const most = start + URL_CHARS
  // The brackets of an IPv6 address.
  BARE_END.lastIndex = text[from] === '[' ? Math.max(from, text.indexOf(']', from) + 1) : from
  const found = BARE_END.exec(text)?.index ?? text.length
  const isOpen = found === text.length && found < most
  let end = Math.min(found, most)
  while (end > from && TRAILING.test(text[end - 1] as string)) {
    if (text[end - 1] === ')' && text.slice(start, end).includes('(')) break
    end--
  }
  return { start, end, kind: 'bare', isOpen }
}

/** @param close the character that ends a target without quotes */
function targetAt(text: string, from: number, kind: UrlSpan['kind'], close: string): UrlSpan | undefined {
  const first = text[from]
  if (first === undefined) return undefined
  const quote = first === '<' ? '>' : first === '"' || first === "'" ? first : undefined
  const start = quote === undefined ? from : from + 1
  const most = Math.min(text.length, start + URL_CHARS)
  let end = start
  for (let depth = 0; end < most; end++) {
    const char = text[end] as string
    if (quote !== undefined) {
      if (char === quote) break
      continue
    }
    if (/\s/.test(char)) break
    if (char === '(') depth++
    else if (char === close && depth-- <= 0) break
  }
  const isOpen = end === text.length && end - start < URL_CHARS
  return end === start && !isOpen ? undefined : { start, end, kind, isOpen }
}

/** Whether the bracket at this position ends the description of a Markdown picture. */
function isPicture(text: string, bracket: number): boolean {
  let depth = 0
  for (let at = bracket - 1; at >= Math.max(0, bracket - LOOK_BACK_CHARS); at--) {
    if (text[at] === ']') depth++
    else if (text[at] === '[' && depth-- === 0) return text[at - 1] === '!'
  }
  return false
}

/** Returns the text from the start of the surrounding HTML tag, or undefined outside of a tag. */
function tagBefore(text: string, at: number): string | undefined {
  const before = text.slice(Math.max(0, at - LOOK_BACK_CHARS), at)
  const open = before.lastIndexOf('<')
  return open >= 0 && /^<[a-z]/i.test(before.slice(open)) && !before.slice(open).includes('>')
    ? before.slice(open)
    : undefined
}
