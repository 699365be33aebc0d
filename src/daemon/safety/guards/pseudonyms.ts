import { createHmac, type KeyObject } from 'node:crypto'

/** The position of a pseudonym in a text, and the value that the pseudonym replaces. */
export type FoundPseudonym = { start: number; end: number; type: string; value: string }

/**
 * The pseudonyms of one request. Pseudonyms replace values that are sent to the model, and are reversed only in the
 * response to this request. `find` and `openFrom` satisfy the contract of `Detector` (detection.ts).
 */
export type Pseudonyms = {
  /**
   * Returns the pseudonym of the value. The same type and value have the same pseudonym in every request of a tenant.
   */
  of(type: string, value: string): string
  find(text: string): FoundPseudonym[]
  openFrom(text: string): number
}

export type PseudonymOptions = {
  /**
   * A subkey that is used only for pseudonyms. Keep it secret: anyone who has this subkey can test whether a pseudonym
   * belongs to a value.
   */
  key: KeyObject | Buffer
  tenantId: string
  /**
   * All text of the request. A pseudonym that already occurs in this text is not used, because reversing it would
   * change the caller's text.
   */
  texts: Iterable<string>
}

// A pseudonym alternates consonants and digits (36 bits), so it cannot contain a word or two consecutive digits. Easily
// confused characters are excluded.
const CONSONANTS = 'bcdfghjkmnpqrstvwxz'
const DIGITS = '23456789'
const PAIRS = 5
const CODE_CHARS = 2 * PAIRS
/**
 * Matches any case, because some models change it. If a model writes Markdown, it may also insert a backslash before
 * the underscore.
 */
const CODE = new RegExp(`_((?:[${CONSONANTS}][${DIGITS}]){${PAIRS}})`, 'gi')
const CODE_BEGINNING = new RegExp(`^(?:[${CONSONANTS}][${DIGITS}])*[${CONSONANTS}]?$`)
const WORD_CHARACTER = /[\p{L}\p{N}]/u

export function createPseudonyms({ key, tenantId, texts }: PseudonymOptions): Pseudonyms {
  const taken = new Set<string>()
  for (const text of texts) for (const [, code] of text.matchAll(CODE)) if (code) taken.add(code.toLowerCase())
  const codes = new Map<string, string>()
  const byCode = new Map<string, { label: string; type: string; value: string }>()
  /** In lower case, including the underscores. */
  const labels = new Set<string>()
  const initials = new Set<string>()
  let longest = 0

  function codeOf(type: string, value: string): string {
    const name = JSON.stringify([type, value])
    const known = codes.get(name)
    if (known !== undefined) return known
    for (let attempt = 0; ; attempt++) {
      const code = toCode(
        createHmac('sha256', key)
          .update(JSON.stringify([tenantId, type, value, attempt]))
          .digest(),
      )
      if (taken.has(code)) continue
      taken.add(code)
      codes.set(name, code)
      return code
    }
  }

  return {
    of(type, value) {
      const label = type.replace(/[^A-Za-z0-9]+/g, '_').toUpperCase()
      const code = codeOf(type, value)
      if (!byCode.has(code)) {
        const spelled = `${label}_`.toLowerCase()
        byCode.set(code, { label: spelled, type, value })
        labels.add(spelled)
        initials.add(spelled[0] as string)
        // Includes the backslash that a model may insert before each underscore.
        longest = Math.max(longest, spelled.length + spelled.split('_').length - 1 + CODE_CHARS)
      }
      return `${label}_${code}`
    },
    find(text) {
      const found: FoundPseudonym[] = []
      if (byCode.size === 0) return found
      for (const match of text.matchAll(CODE)) {
        const known = byCode.get((match[1] as string).toLowerCase())
        const start = known && labelStart(text, match.index + 1, known.label)
        if (known && start !== undefined) {
          found.push({ start, end: match.index + match[0].length, type: known.type, value: known.value })
        }
      }
      return found
    },
    openFrom(text) {
      for (let at = Math.max(0, text.length - longest); at < text.length; at++) {
        if (!initials.has((text[at] as string).toLowerCase())) continue
        if (at > 0 && WORD_CHARACTER.test(text[at - 1] as string)) continue
        if (mayBecome(text.slice(at), labels)) return at
      }
      return text.length
    },
  }
}

function toCode(digest: Buffer): string {
  let code = ''
  for (let pair = 0; pair < PAIRS; pair++) {
    // Two bytes select one of 19 consonants, so the bias is below 0.03 %.
    code += CONSONANTS[digest.readUInt16BE(3 * pair) % CONSONANTS.length] as string
    code += DIGITS[(digest[3 * pair + 2] as number) % DIGITS.length] as string
  }
  return code
}

/**
 * Returns the start of the label that ends at `end`. Returns undefined if `label` is not a separate word directly
 * before `end`.
 */
function labelStart(text: string, end: number, label: string): number | undefined {
  let at = end
  for (let left = label.length - 1; left >= 0; left--) {
    at--
    if (text[at]?.toLowerCase() !== label[left]) return undefined
    if (label[left] === '_' && text[at - 1] === '\\') at--
  }
  return at > 0 && WORD_CHARACTER.test(text[at - 1] as string) ? undefined : at
}

/** Whether more characters can complete a pseudonym. */
function mayBecome(tail: string, labels: ReadonlySet<string>): boolean {
  const spelled = tail.toLowerCase().replaceAll('\\_', '_').replace(/\\$/, '')
  for (const label of labels) {
    if (label.startsWith(spelled)) return true
    if (!spelled.startsWith(label) || spelled.length >= label.length + CODE_CHARS) continue
    if (CODE_BEGINNING.test(spelled.slice(label.length))) return true
  }
  return false
}
