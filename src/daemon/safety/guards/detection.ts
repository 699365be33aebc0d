/**
 * A finding of a guard: its position and its type. It never contains the value, so it cannot leak it. Offsets are
 * UTF-16 code units; `end` is exclusive.
 */
export type Finding = {
  start: number
  end: number
  /** The type: an entity (`EMAIL`, `CREDIT_CARD`) or the id of a rule (`aws-access-key`). */
  type: string
  /** 0 to 1. */
  confidence: number
}

/**
 * Finds one family of values in text, with the same result for a whole text and for a stream of pieces. For every text
 * T and every prefix P of it: before `openFrom(P)`, `find(T)` and `find(P)` are equal. So a stream may release
 * everything before `openFrom`. Of the released text, only the last DETECTION_CONTEXT_CHARS are still needed.
 */
export type Detector = {
  /** All findings, in order and without overlap. Linear in the length of the text. */
  find(text: string): Finding[]
  /**
   * The start of text that may still become a finding, or a longer one, as more text arrives; `text.length` when there
   * is none. It is at most DETECTION_HOLD_CHARS before the end.
   */
  openFrom(text: string): number
  /**
   * The start of the first value that has begun and is incomplete, such as a token after its documented prefix;
   * `text.length` when there is none. Open text before it could only become a value: a live stream holds back at most
   * LIVE_HOLD_CHARS of that. Findings count as begun, whether or not they are reported here.
   */
  begunFrom?(text: string): number
  /** Everything from `openFrom` on has begun: the prefix of a listed word, or a partial match of a pattern. */
  readonly holdsOnlyValues?: true
  /** How much released text `find` needs; default: DETECTION_CONTEXT_CHARS. */
  readonly contextChars?: number
  /** `find` for a detector that may take long: it yields every few milliseconds, so that other work can run. */
  readonly slowly?: {
    /**
     * @param effort the remaining effort; unlimited by default
     * @param from findings that begin before this offset do not end after it; the text before is only context
     */
    find(text: string, effort?: Effort, from?: number): Generator<void, Finding[]>
    openFrom(text: string, effort?: Effort, from?: number): Generator<void, number>
  }
  /** The types that it finds; undefined if they are not known in advance. */
  readonly types?: readonly string[]
}

/** `begunFrom` of the detector, or its default. @param open the result of its `openFrom` for the text */
export function begunFrom(
  detector: Pick<Detector, 'begunFrom' | 'holdsOnlyValues'>,
  text: string,
  open: number,
): number {
  return detector.holdsOnlyValues ? open : (detector.begunFrom?.(text) ?? text.length)
}

/**
 * The same function with the last result cached: a caller that asks where to cut then asks for findings in the same
 * text. The cache is cleared when the caller is done, so that a text does not live as long as a detector.
 */
export function remembering<T>(read: (text: string) => T): (text: string) => T {
  let latest: { text: string; said: T } | undefined
  const forget = () => {
    latest = undefined
  }
  return (text) => {
    if (latest?.text === text) return latest.said
    if (latest === undefined) queueMicrotask(forget)
    latest = { text, said: read(text) }
    return latest.said
  }
}

/** As Pacer.spend. */
export type Effort = { spend(steps: number): boolean }

/**
 * The type of findings for text that was not scanned, because the tenant's patterns exceeded the effort. Their
 * confidence is 0.
 */
export const UNREAD = 'unread'

/** How far before a finding its context words may be ("passport no."). */
export const DETECTION_CONTEXT_CHARS = 256
/** A live stream holds back at most this much text in which no value has begun. */
export const LIVE_HOLD_CHARS = 64
/**
 * The maximum length of a finding, and of the text that a stream holds back: twice a private key of 4,096 bits in PEM.
 */
export const DETECTION_HOLD_CHARS = 8_192
