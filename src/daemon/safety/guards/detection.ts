/**
 * What a guard found in a text: where, and what kind of thing. The value itself is in no finding, so none can leak by one.
 * Offsets are UTF-16 code units, `end` is exclusive.
 */
export type Finding = {
  start: number
  end: number
  /** What it is: an entity (`EMAIL`, `CREDIT_CARD`) or the id of a rule (`aws-access-key`). */
  type: string
  /** 0 to 1. */
  confidence: number
}

/**
 * Finds one family of things in text, the same whether the text comes at once or in pieces. For every text T and every
 * beginning P of it: what `find(T)` has before `openFrom(P)` is what `find(P)` has there. So whoever reads a stream may let
 * go of everything before `openFrom`, and needs no more of what has left than the last DETECTION_CONTEXT_CHARS.
 */
export type Detector = {
  /** All findings, in order and without overlap. Time linear in the length of the text. */
  find(text: string): Finding[]
  /**
   * Where something begins that may still become a finding, or a longer one, with what follows; `text.length` when there
   * is nothing. It goes back at most DETECTION_HOLD_CHARS.
   */
  openFrom(text: string): number
  /**
   * Where the first value begins that has actually begun and is not complete, such as a token behind its documented prefix;
   * `text.length` when there is none. What is open before it could only become a value: a live stream holds
   * LIVE_HOLD_CHARS of that. Findings have begun, whether they are told here or not.
   */
  begunFrom?(text: string): number
  /** Everything from `openFrom` on has begun: the prefix of a listed word, the partial match of a pattern. */
  readonly holdsOnlyValues?: true
  /** So much of what has left `find` needs; default: DETECTION_CONTEXT_CHARS. */
  readonly contextChars?: number
  /** The same for one that may take long: stops every few milliseconds, so that others can have a turn. */
  readonly slowly?: {
    /**
     * @param effort what it may still take; without it, all it needs
     * @param from no finding begins before this offset and ends after it; the text before is only context
     */
    find(text: string, effort?: Effort, from?: number): Generator<void, Finding[]>
    openFrom(text: string, effort?: Effort, from?: number): Generator<void, number>
  }
  /** Types that it finds; undefined where they are not known beforehand. */
  readonly types?: readonly string[]
}

/** As `begunFrom` of the detector, for one that may have none. @param open what its `openFrom` says of the text */
export function begunFrom(
  detector: Pick<Detector, 'begunFrom' | 'holdsOnlyValues'>,
  text: string,
  open: number,
): number {
  return detector.holdsOnlyValues ? open : (detector.begunFrom?.(text) ?? text.length)
}

/**
 * The same function, which remembers what it has said last: whoever asks a detector where to cut asks next what there is,
 * about the same text. It forgets when whoever asked is done, for a text must not live as long as a detector does.
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

/** The type of findings for what nobody has read, since the patterns of a tenant took too much. Their confidence is 0. */
export const UNREAD = 'unread'

/** How far before a finding the words may stand that make it one ("passport no."). */
export const DETECTION_CONTEXT_CHARS = 256
/** A live stream holds no more text in which no value has begun. */
export const LIVE_HOLD_CHARS = 64
/** So much of a stream is held back at most, and no finding is longer: a private key of 4,096 bits in PEM, twice over. */
export const DETECTION_HOLD_CHARS = 8_192
