// One text of a response, received in chunks. This file is long, because every field of Channel affects the decision to
// release text.
import type { Clock } from '../../../../shared/time.ts'
import {
  begunFrom,
  DETECTION_CONTEXT_CHARS,
  DETECTION_HOLD_CHARS,
  type Effort,
  LIVE_HOLD_CHARS,
  UNREAD,
} from '../detection.ts'
import type { Pseudonyms } from '../pseudonyms.ts'
import {
  type ActedFinding,
  type ArmedDetector,
  countHits,
  finding,
  type GuardHit,
  isOverThreshold,
  toEdit,
  toRedactions,
} from '../redaction.ts'
import { URL_CHARS, urlSpans } from '../urls/spans.ts'
import { OutputBlocked } from './output-blocked.ts'
import type { Edit } from './text-view.ts'
import { createTextView, type TextFormat, type TextView } from './text-view.ts'

/** The rules and counters that all channels of a response share. */
export type ChannelRules = {
  armed: readonly ArmedDetector[]
  pseudonyms: Pseudonyms | undefined
  /** The hit counts, updated when findings are settled. */
  hits: GuardHit[]
  /** The remaining step budget of customers' patterns. Unlimited by default. */
  effort?: Effort | undefined
}

/**
 * A pseudonym in unsettled text, and the value that it replaces. Rules use the value to decide whether to restore it.
 */
type Restoration = Edit & { type: string }

/**
 * The maximum length of unsettled text. If the text exceeds this limit, all of it is released, even inside a finding.
 * This happens only if findings overlap or are too long.
 */
const HELD_CHARS = 2 * DETECTION_HOLD_CHARS
/** Detectors run when `chars` new characters have arrived, or `ms` after their last run. */
export type Pace = {
  chars: number
  ms?: number
  clock?: Pick<Clock, 'monotonic'> | undefined
  /**
   * Whether a client reads the response live. If true, the channel holds back at most LIVE_HOLD_CHARS of the text,
   * unless a value has begun in the text.
   */
  isLive?: boolean
}

const EVERY_TIME: Pace = { chars: 1 }
/**
 * While a long value is held back, detectors run only if at least this share of it has arrived since their last run.
 * This keeps the total work linear.
 */
const SCAN_PER_HELD = 1 / 16
/**
 * The minimum fraction of a scan's steps that is charged to the step budget. The fraction is the share of new text in
 * the scanned text. The budget therefore suffices for a response in many small chunks, but still limits repeated scans.
 */
const LEAST_SHARE_PAID = 1 / 16

/**
 * One text of a response, such as the arguments of one tool call, that arrives in chunks. Settled text can be taken,
 * because later text cannot change settled text. Generators that run detectors yield after each detector. Do not use
 * the channel until the generator has finished.
 */
export class Channel {
  readonly #rules: ChannelRules
  readonly #view: TextView
  readonly #pace: Pace
  readonly #contextChars: number
  /**
   * The decoded text that detectors scan: the context that they need, then the unsettled text. Offsets count from the
   * first character of the channel.
   */
  #window = ''
  #windowFrom = 0
  #settledTo = 0
  #askedTo = 0
  /** Before this offset, the findings of the patterns are final. */
  #decidedTo = 0
  /** The fraction of a pattern's steps that is charged for scanning the current text. */
  #sharePaid = 1
  /** Whether detectors last ran in the middle of a batch. */
  #isMidBatch = false
  #askedAtMs = Number.NEGATIVE_INFINITY
  /**
   * The end of text that was released early, although more text could have completed a value in it. -1 if no text was
   * released early.
   */
  #releasedAt = -1
  /** The raw text that has not been taken yet. */
  #raw = ''
  #rawFrom = 0
  #rawSettledTo = 0
  /** Ordered and disjoint. The first edits may already have been taken. */
  #edits: Edit[] = []
  #editsTaken = 0

  constructor(rules: ChannelRules, format: TextFormat, pace = EVERY_TIME) {
    this.#rules = rules
    this.#view = createTextView(format)
    this.#pace = pace
    const contexts = rules.armed.map(({ detector }) => detector.contextChars ?? DETECTION_CONTEXT_CHARS)
    // A pseudonym may stand at the end of a long address.
    this.#contextChars = Math.max(DETECTION_CONTEXT_CHARS, ...contexts, rules.pseudonyms ? URL_CHARS : 0)
  }

  /** The number of pending characters that are settled. */
  get ready(): number {
    return this.#rawSettledTo - this.#rawFrom
  }

  /** The number of pending characters, settled or not. */
  get waiting(): number {
    return this.#raw.length
  }

  /** Whether text has arrived since the last run of detectors, or the last run was in the middle of a batch. */
  get isBehind(): boolean {
    return this.#end > this.#askedTo || this.#isMidBatch
  }

  add(raw: string): void {
    this.#raw += raw
    this.#window += this.#view.add(raw)
  }

  /** How many more milliseconds new text may wait for further text. Without a clock, the value is always 0. */
  get dueInMs(): number {
    const { ms = 0, clock } = this.#pace
    return clock === undefined ? 0 : Math.max(0, this.#askedAtMs + ms - clock.monotonic())
  }

  /** Whether the detectors are due to run. */
  get isDue(): boolean {
    return this.isDueWith(0)
  }

  /** Whether the detectors would be due after `chars` more characters. */
  isDueWith(chars: number): boolean {
    // The first words of a channel are always due.
    if (this.#settledTo === 0 || this.#end + chars - this.#askedTo >= this.#pace.chars) return true
    return this.#pace.clock !== undefined && this.dueInMs === 0
  }

  /**
   * If detectors are due, settles text that later text cannot change. Call this only in the middle of a batch.
   * @throws OutputBlocked
   */
  *settling(): Generator<void> {
    if (!this.isDue) return
    this.#askedAtMs = this.#now
    if (this.#isWorthAsking) yield* this.#asking(false)
    this.#isMidBatch = this.#pace.isLive === true
  }

  /**
   * Like `settling`, but for the end of a batch, when the client is waiting for the text: also runs detectors that are
   * not due. @throws OutputBlocked
   */
  *settlingNow(): Generator<void> {
    this.#askedAtMs = this.#now
    if (this.#isWorthAsking) yield* this.#asking(this.#pace.isLive === true)
  }

  /** Like `settlingNow`, but for a paused stream: ignores the minimum amount of new text. @throws OutputBlocked */
  *catchingUp(): Generator<void> {
    this.#askedAtMs = this.#now
    if (this.isBehind) yield* this.#asking(this.#pace.isLive === true)
  }

  get #now(): number {
    return this.#pace.clock?.monotonic() ?? 0
  }

  get #isWorthAsking(): boolean {
    const longValueChars = Math.max(0, this.#askedTo - this.#settledTo - LIVE_HOLD_CHARS)
    return this.#isMidBatch || (this.isBehind && this.#end - this.#askedTo >= longValueChars * SCAN_PER_HELD)
  }

  /** @param isLive whether to release open text beyond LIVE_HOLD_CHARS if no value has begun in it */
  *#asking(isLive: boolean): Generator<void> {
    const end = this.#end
    const settledTo = this.#settledTo
    this.#setAsked(end)
    const { open, leave } = yield* this.#borders(isLive)
    if (leave > settledTo) yield* this.#settleTo(leave)
    if (this.#settledTo > Math.max(settledTo, open)) this.#releasedAt = this.#settledTo
    if (end - this.#settledTo > HELD_CHARS) yield* this.releasing()
  }

  /**
   * Settles all text that has arrived. If later text completes a value, a part of the value may already have been
   * released.
   */
  *releasing(): Generator<void> {
    const end = this.#end
    this.#setAsked(end)
    if (this.#settledTo < end) yield* this.#settleTo(end)
    this.#releasedAt = end
    // Patterns must search the released text again, because later text may continue a match that begins in it.
    this.#decidedTo = this.#windowFrom
  }

  #setAsked(end: number): void {
    const unpaid = end - this.#askedTo
    this.#sharePaid = Math.max(LEAST_SHARE_PAID, Math.min(1, unpaid / Math.max(1, end - this.#decidedTo)))
    this.#askedTo = end
    this.#isMidBatch = false
  }

  get #effort(): Effort | undefined {
    const { effort } = this.#rules
    const share = this.#sharePaid
    return effort && { spend: (steps) => effort.spend(steps * share) }
  }

  /** The offset in the window before which the findings of the patterns are final. */
  get #decided(): number {
    return Math.max(0, this.#decidedTo - this.#windowFrom)
  }

  /** Settles all text, because the text is complete. */
  *ending(): Generator<void> {
    this.#window += this.#view.end()
    yield* this.releasing()
    this.#rawSettledTo = this.#rawFrom + this.#raw.length
  }

  /** Returns the next `chars` characters in their screened form. `chars` is at most `ready`. */
  take(chars: number): { text: string; isChanged: boolean } {
    const from = this.#rawFrom
    const to = from + chars
    let text = ''
    let at = from
    let isChanged = false
    for (; this.#editsTaken < this.#edits.length; this.#editsTaken++) {
      const edit = this.#edits[this.#editsTaken] as Edit
      if (edit.start >= to) break
      isChanged = true
      if (edit.start >= from) text += this.#raw.slice(at - from, edit.start - from) + edit.text
      at = Math.min(edit.end, to)
      if (edit.end > to) break
    }
    text += this.#raw.slice(at - from, chars)
    this.#raw = this.#raw.slice(chars)
    this.#rawFrom = to
    return { text, isChanged }
  }

  get #end(): number {
    return this.#windowFrom + this.#window.length
  }

  /**
   * Returns two offsets: `open` is where open text starts, and text may be released up to `leave`. A value that has
   * begun is not split.
   */
  *#borders(isLive: boolean): Generator<void, { open: number; leave: number }> {
    const { armed, pseudonyms } = this.#rules
    const effort = this.#effort
    const window = this.#window
    const from = this.#windowFrom
    if (armed.length === 0 && !pseudonyms) return { open: this.#end, leave: this.#end }
    let open = Math.min(window.length, this.#view.openFrom() - from)
    let leave = open
    for (const one of armed) {
      if (from + leave <= this.#settledTo) break
      const { detector } = one
      const own = detector.slowly
        ? yield* detector.slowly.openFrom(window, effort, this.#decided)
        : detector.openFrom(window)
      open = Math.min(open, own)
      leave = Math.min(leave, isLive ? yield* this.#leavingOf(one, own) : own)
      yield
    }
    if (pseudonyms) {
      const own = pseudonyms.openFrom(window)
      open = Math.min(open, own)
      leave = Math.min(leave, own)
    }
    if (isHighSurrogate(window.charCodeAt(leave - 1))) leave--
    // If a token can only be replaced as a whole, it is also released as a whole.
    let whole = leave < window.length ? this.#view.widen(from + leave, from + leave + 1).start : from + leave
    const bound = this.#liveBound
    if (isLive && leave >= bound) whole = Math.max(whole, from + bound)
    return { open: Math.min(from + open, whole), leave: whole }
  }

  /** The offset in the window where the last LIVE_HOLD_CHARS start. Text after this offset may always be held back. */
  get #liveBound(): number {
    const window = this.#window
    const at = Math.max(0, window.length - LIVE_HOLD_CHARS)
    return isHighSurrogate(window.charCodeAt(at - 1)) ? at + 1 : at
  }

  /** Returns the offset up to which text may be released if this detector considers the text open from `open` on. */
  *#leavingOf(one: ArmedDetector, open: number): Generator<void, number> {
    const window = this.#window
    const bound = this.#liveBound
    if (open >= bound) return open
    const begun = begunFrom(one.detector, window, open)
    if (begun <= open) return open
    // A finding counts as a value that has begun, even if `begunFrom` does not report it.
    const found = (yield* finding(window, [one], this.#effort, this.#decided)).filter(({ end }) => end > open)
    return found.reduce((least, { start }) => Math.max(open, Math.min(least, start)), Math.min(begun, bound))
  }

  /** Settles all text before `limit`, except findings that extend beyond `limit`. */
  *#settleTo(limit: number): Generator<void> {
    const { hits, pseudonyms } = this.#rules
    const restored = this.#restorations()
    const findings = [...(yield* this.#findings(restored)), ...(yield* this.#refusals(restored))]
    const redactions = toRedactions(findings)
    const edits: Edit[] = restored.filter(
      ({ start, end }) => (firstEndingAfter(redactions, start)?.start ?? end) >= end,
    )
    const cut = [...redactions, ...edits].find(({ start, end }) => start < limit && limit < end)?.start ?? limit
    // If another detector requires a cut, a finding that is only logged may extend beyond the cut. Such a finding can
    // no longer change.
    const settled = findings.filter(({ start }) => start < cut)
    countHits(hits, settled)
    if (isOverThreshold(hits, this.#rules.armed)) throw new OutputBlocked(hits)
    for (const redaction of redactions) {
      if (redaction.end > cut) continue
      if (redaction.action === 'block') throw new OutputBlocked(hits)
      edits.push(toEdit(redaction, this.#window, pseudonyms, this.#windowFrom))
    }
    const due = edits.filter(({ end }) => end <= cut).sort((a, b) => a.start - b.start)
    this.#edits = this.#edits.slice(this.#editsTaken)
    this.#editsTaken = 0
    for (const edit of due) this.#edits.push(...this.#view.toRawEdits(edit))
    // A logged finding may span the cut; the next run must find it as a whole.
    this.#decidedTo = settled.reduce((least, { start, end }) => (end > cut ? Math.min(least, start) : least), cut)
    this.#forgetBefore(cut)
  }

  #forgetBefore(cut: number): void {
    this.#settledTo = cut
    this.#rawSettledTo = this.#view.toRaw(cut)
    const keptFrom = cut - this.#contextChars
    if (keptFrom > this.#windowFrom) {
      this.#window = this.#window.slice(keptFrom - this.#windowFrom)
      this.#windowFrom = keptFrom
    }
    this.#view.forget(cut)
  }

  #restorations(): Restoration[] {
    const { pseudonyms } = this.#rules
    if (!pseudonyms) return []
    const all = pseudonyms.find(this.#window)
    if (all.length === 0) return []
    // A value inside an address would be sent to the host of the address.
    const urls = urlSpans(this.#window)
    const isInUrl = (from: number, to: number): boolean =>
      urls.some(({ start, end }) => start <= from && to <= end && end - start > to - from)
    const found = all
      .filter(({ start, end }) => !isInUrl(start, end))
      .map(({ start, end, type, value }) => {
        return { start: start + this.#windowFrom, end: end + this.#windowFrom, type, text: value }
      })
    return found.filter(({ start }) => start >= this.#settledTo)
  }

  /**
   * Returns the pseudonyms whose values the output rules forbid. The rules apply to the values, because the client
   * would receive them.
   */
  *#refusals(restored: readonly Restoration[]): Generator<void, ActedFinding[]> {
    const { armed } = this.#rules
    const effort = this.#effort
    const refusals: ActedFinding[] = []
    for (const { start, end, type, text } of restored) {
      for (const one of armed) {
        if (one.allowsRestored) continue
        const isKnown = one.detector.types?.includes(type)
        const types = isKnown ? [type] : (yield* finding(text, [one], effort)).map((found) => found.type)
        for (const found of types) {
          const action = one.actionOf(found)
          // `tokenize` needs no further action: the model has received only the pseudonym, and the client may receive
          // the value.
          if (action === 'tokenize' || action === 'log') continue
          refusals.push({ start, end, type: found, confidence: 1, guard: one.guard, action })
        }
      }
    }
    return refusals
  }

  /** Returns the findings in unsettled text, except findings inside the request's own pseudonyms. */
  *#findings(restored: readonly Edit[]): Generator<void, ActedFinding[]> {
    const { armed } = this.#rules
    const settledTo = this.#settledTo
    const findings: ActedFinding[] = []
    for (const found of yield* finding(this.#window, armed, this.#effort, this.#decided)) {
      let start = found.start + this.#windowFrom
      const end = found.end + this.#windowFrom
      if (end <= settledTo) continue
      if (start < settledTo) {
        // If a finding starts in settled text, it is real only if this text was released early. Otherwise, it was found
        // only because the window starts in the middle of the text.
        if (this.#releasedAt !== settledTo && found.type !== UNREAD) continue
        start = settledTo
      }
      const around = firstEndingAfter(restored, start)
      if (around && around.start <= start && end <= around.end) continue
      const widened = this.#view.widen(start, end)
      findings.push({ ...found, start: Math.max(settledTo, widened.start), end: widened.end })
    }
    return findings
  }
}

/** Returns the first range that ends after `offset`. The ranges must be ordered and disjoint. */
function firstEndingAfter<T extends { start: number; end: number }>(
  stretches: readonly T[],
  offset: number,
): T | undefined {
  let low = 0
  let high = stretches.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((stretches[middle] as T).end <= offset) low = middle + 1
    else high = middle
  }
  return stretches[low]
}

const isHighSurrogate = (code: number): boolean => (code & 0xfc00) === 0xd800
