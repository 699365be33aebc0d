/**
 * A finding of a guard: its position and its type. A finding cannot leak the value, because it does not contain the
 * value. Offsets are in UTF-16 code units, and `end` is exclusive.
 */
export type Finding = {
  start: number
  end: number
  /** The type: an entity (`EMAIL`, `CREDIT_CARD`) or the id of a rule (`aws-access-key`). */
  type: string
  /** 0 to 1. */
  confidence: number
  /** Whether the range encodes the value. A mask then cannot keep the shape of the value. */
  isDecoded?: true
}

/**
 * Finds one family of values in text. A text that is scanned in chunks has the same findings as the whole text. For
 * every text T and every prefix P of T, `find(T)` and `find(P)` return the same findings before `openFrom(P)`. A stream
 * may therefore release everything before `openFrom`. Detectors then need only the last DETECTION_CONTEXT_CHARS of the
 * released text.
 */
export type Detector = {
  /** Returns all findings, ordered and without overlap. Takes time linear in the length of the text. */
  find(text: string): Finding[]
  /** Whether `find` may find anything: a cheap test that nearly all texts fail. Default: true. */
  mayFind?(text: string): boolean
  /**
   * Returns the start of the open text. When more text arrives, open text may become a finding or a longer finding. The
   * start is at most DETECTION_HOLD_CHARS before the end. Returns `text.length` if no text is open.
   */
  openFrom(text: string): number
  /**
   * Returns the start of the first value that has begun but is incomplete, such as a token whose documented prefix has
   * arrived. Returns `text.length` if there is no such value. Open text before this position is often harmless, so a
   * live stream holds back at most LIVE_HOLD_CHARS of it. The caller treats every finding as a value that has begun,
   * even if this function returns a later position.
   */
  begunFrom?(text: string): number
  /**
   * True if all open text belongs to a value that has begun: the prefix of a listed word, or a partial match of a
   * pattern.
   */
  readonly holdsOnlyValues?: true
  /** The number of released characters that `find` needs as context. Default: DETECTION_CONTEXT_CHARS. */
  readonly contextChars?: number
  /**
   * Variants of `find` and `openFrom` for a detector that may be slow. If a detector has variants, callers use only
   * these. The variants yield every few milliseconds, so that other work can run.
   */
  readonly slowly?: {
    /**
     * @param effort the remaining step budget, unlimited by default
     * @param from the offset where the search starts. The text before this offset is only context: every finding starts
     * at or after the offset.
     */
    find(text: string, effort?: Effort, from?: number): Generator<void, Finding[]>
    openFrom(text: string, effort?: Effort, from?: number): Generator<void, number>
  }
  /** The finding types of this detector. Undefined if they are not known in advance. */
  readonly types?: readonly string[]
}

/**
 * Returns the result of the detector's `begunFrom`, or the default if the detector does not define this function.
 * @param open the result of the detector's `openFrom` for the text
 */
export function begunFrom(
  detector: Pick<Detector, 'begunFrom' | 'holdsOnlyValues'>,
  text: string,
  open: number,
): number {
  return detector.holdsOnlyValues ? open : (detector.begunFrom?.(text) ?? text.length)
}

/**
 * Caches the last result of a function: callers request the cut position of a text, and immediately afterwards the
 * findings in the same text. The cache is cleared in a microtask, so that a detector does not retain the text.
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

/** A step budget, with the contract of Pacer.spend. */
export type Effort = { spend(steps: number): boolean }

/**
 * The type of findings for text that was not scanned, because the step budget of the tenant's patterns is exhausted.
 * The confidence of these findings is 0.
 */
export const UNREAD = 'unread'

/** The maximum distance between a finding and the context words before it, such as "passport no.". */
export const DETECTION_CONTEXT_CHARS = 256
/** The maximum length of the text that a live stream holds back if no value has begun in this text. */
export const LIVE_HOLD_CHARS = 64
/**
 * The maximum length of a finding, and of the text that a stream holds back. A PEM private key of 4,096 bits has half
 * this length.
 */
export const DETECTION_HOLD_CHARS = 8_192
