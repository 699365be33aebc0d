import { createHash } from 'node:crypto'

/**
 * A secret text and its description. A part of `fragmentChars` characters counts as a leak. Ordinary words need longer
 * parts than random letters, because other texts may contain the same words.
 */
export type Planted = { kind: string; text: string; fragmentChars?: number }

/** A secret that was found: where it was found, and the part that was found. */
export type Leak = { where: string; kind: string; text: string; part: string }

/** Minimum length of a leaked part. Digits need more characters, because they contain less information. */
const FRAGMENT_CHARS = 12
const FRAGMENT_DIGITS = 14

/** The six encodings in which secrets are sent and searched. */
export const ENCODINGS: Record<string, (text: string) => string> = {
  plain: (text) => text,
  base64: (text) => Buffer.from(text).toString('base64'),
  base64url: (text) => Buffer.from(text).toString('base64url'),
  hex: (text) => Buffer.from(text).toString('hex'),
  url: (text) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  reversed: (text) => [...text].reverse().join(''),
}

/** Pseudorandom letters, the same in every run. No other text contains them. */
export function marker(name: string, chars: number): string {
  let text = ''
  for (let at = 0; text.length < chars; at++) {
    text += createHash('sha256')
      .update(`${name} ${at}`)
      .digest('base64')
      .replace(/[^a-zA-Z]/g, '')
      .toLowerCase()
  }
  return text.slice(0, chars)
}

/** Finds parts of secrets, also encoded once or twice. */
export class SecretSearch {
  /** Fragments by their first characters. Fragments of digits are longer. */
  readonly #fragments = new Map<string, { secret: Planted; fragment: string }[]>()
  /** Marks the first characters of all fragments. Most positions of a text are skipped by this check alone. */
  readonly #beginnings = new Uint8Array(65_536)

  constructor(planted: readonly Planted[]) {
    for (const secret of planted) this.add(secret)
  }

  add(secret: Planted): void {
    const { fragmentChars = FRAGMENT_CHARS } = secret
    for (const text of [secret.text, [...secret.text].reverse().join('')]) {
      for (let at = 0; at + fragmentChars <= text.length; at++) {
        const part = text.slice(at, at + FRAGMENT_CHARS)
        const fragment = text.slice(at, at + (/^\d+$/.test(part) ? FRAGMENT_DIGITS : fragmentChars))
        if (/^\d+$/.test(fragment) && fragment.length < FRAGMENT_DIGITS) continue
        this.#fragments.set(part, [...(this.#fragments.get(part) ?? []), { secret, fragment }])
        this.#beginnings[beginningAt(part, 0)] = 1
      }
    }
  }

  /** Returns each secret of which the text contains a part, once. */
  find(where: string, text: string): Leak[] {
    const leaks = new Map<Planted, Leak>()
    for (const view of viewsOf(text)) {
      for (let at = 0; at + FRAGMENT_CHARS <= view.length; at++) {
        if (this.#beginnings[beginningAt(view, at)] === 0) continue
        for (const { secret, fragment } of this.#fragments.get(view.slice(at, at + FRAGMENT_CHARS)) ?? []) {
          if (view.startsWith(fragment, at)) leaks.set(secret, { where, ...secret, part: fragment })
        }
      }
    }
    return [...leaks.values()]
  }
}

const beginningAt = (text: string, at: number): number =>
  (text.charCodeAt(at) * 31 + text.charCodeAt(at + 1) * 1_009 + text.charCodeAt(at + 2) * 7_919) & 0xffff

/** The text and its decoded forms, decoded up to twice. */
function viewsOf(text: string): Set<string> {
  const views = new Set([text])
  for (const view of [...views]) for (const decoded of decodings(view)) views.add(decoded)
  for (const view of [...views]) if (view !== text) for (const decoded of decodings(view)) views.add(decoded)
  return views
}

function decodings(text: string): string[] {
  const unescaped = text
    .replace(/\\u([0-9a-fA-F]{4})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/&#(x?)([0-9a-fA-F]+);/g, (_, x, digits) => String.fromCodePoint(Number.parseInt(digits, x ? 16 : 10)))
    .replace(/(?:%[0-9a-fA-F]{2})+/g, (bytes) => Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('latin1'))
  // An encoded run may start in the middle of a byte or group, after unrelated characters. So every offset is tried.
  const hex = runs(text, /[0-9a-fA-F]{24,}/g, 2, 'hex')
  const base64 = runs(text, /[A-Za-z0-9+/_-]{16,}/g, 4, 'base64')
  return [unescaped, hex, base64].filter((view) => view !== '' && view !== text)
}

function runs(text: string, pattern: RegExp, group: number, encoding: 'hex' | 'base64'): string {
  const decoded: string[] = []
  for (const [run] of text.matchAll(pattern)) {
    for (let at = 0; at < group; at++) {
      // Only printable characters are searched.
      const bytes = Buffer.from(run.slice(at), encoding).toString('latin1')
      decoded.push(...(bytes.match(/[\x20-\x7e]{12,}/g) ?? []))
    }
  }
  return decoded.join('\n')
}
