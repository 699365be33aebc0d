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
  toEdit,
  toRedactions,
} from '../redaction.ts'
import { OutputBlocked } from './output-blocked.ts'
import type { Edit } from './text-view.ts'
import { createTextView, type TextFormat, type TextView } from './text-view.ts'

/** What all channels of an answer share. */
export type ChannelRules = {
  armed: readonly ArmedDetector[]
  pseudonyms: Pseudonyms | undefined
  /** Counted as findings are settled. */
  hits: GuardHit[]
  /** What patterns of customers may still take; without it, all they need. */
  effort?: Effort | undefined
}

/** A pseudonym that stands in what is not settled, and what its value is, so that rules can say whether it may come back. */
type Restoration = Edit & { type: string }

/** A finding that was longer than allowed, or several that overlap, are let go of beyond this. */
const HELD_CHARS = 2 * DETECTION_HOLD_CHARS
/** How seldom detectors are asked: when so many characters have come anew, or so much time has passed since the last time. */
export type Pace = {
  chars: number
  ms?: number
  clock?: Pick<Clock, 'monotonic'> | undefined
  /** Somebody reads along: at most LIVE_HOLD_CHARS wait where no value has begun. */
  isLive?: boolean
}

const EVERY_TIME: Pace = { chars: 1 }
/** While a long value is held, detectors are asked when this part of it is new, so that all the asking stays linear. */
const ASK_PER_HELD = 1 / 16
/**
 * Patterns pay for new text in full, and for text that they read again at least this share. So the effort of an answer
 * lasts for its text, however slowly that comes, and still bounds what reading again may cost.
 */
const LEAST_SHARE_PAID = 1 / 16

/**
 * One text of an answer, such as the arguments of one tool call, that comes in pieces. What is settled can be taken: no
 * more of the answer can change what was made of it. Whatever asks detectors stops after each of them, so that others can
 * have a turn; nothing may be done with the channel until it has come to its end.
 */
export class Channel {
  readonly #rules: ChannelRules
  readonly #view: TextView
  readonly #pace: Pace
  readonly #contextChars: number
  /** As it is read: what is not settled, and before it what detectors want to see. Offsets count from the first character. */
  #window = ''
  #windowFrom = 0
  #settledTo = 0
  #askedTo = 0
  /** Patterns have decided everything before this offset. */
  #decidedTo = 0
  /** The share of their steps that patterns pay for the text that they are asked about. */
  #sharePaid = 1
  /** Detectors were asked last when more of the same batch followed. */
  #isMidBatch = false
  #askedAtMs = Number.NEGATIVE_INFINITY
  /** Where something was let go of although more text could have made a value of it. */
  #letGoAt = -1
  /** As it came: what was not taken yet. */
  #raw = ''
  #rawFrom = 0
  #rawSettledTo = 0
  /** In order and apart; the first of them were taken. */
  #edits: Edit[] = []
  #editsTaken = 0

  constructor(rules: ChannelRules, format: TextFormat, pace = EVERY_TIME) {
    this.#rules = rules
    this.#view = createTextView(format)
    this.#pace = pace
    const contexts = rules.armed.map(({ detector }) => detector.contextChars ?? DETECTION_CONTEXT_CHARS)
    this.#contextChars = Math.max(DETECTION_CONTEXT_CHARS, ...contexts)
  }

  /** So many characters can be taken. */
  get ready(): number {
    return this.#rawSettledTo - this.#rawFrom
  }

  /** So many characters were not taken, whether they could be or not. */
  get waiting(): number {
    return this.#raw.length
  }

  /** Some of it has come since detectors were asked, or they were asked in the middle of a batch. */
  get isBehind(): boolean {
    return this.#end > this.#askedTo || this.#isMidBatch
  }

  add(raw: string): void {
    this.#raw += raw
    this.#window += this.#view.add(raw)
  }

  /** How long what has come since may wait for more of it; 0 where nothing tells the time. */
  get dueInMs(): number {
    const { ms = 0, clock } = this.#pace
    return clock === undefined ? 0 : Math.max(0, this.#askedAtMs + ms - clock.monotonic())
  }

  /** It is time to ask detectors about what has come. */
  get isDue(): boolean {
    return this.isDueWith(0)
  }

  /** It would be with so many characters more. */
  isDueWith(chars: number): boolean {
    // The first words of a channel are waited for.
    if (this.#settledTo === 0 || this.#end + chars - this.#askedTo >= this.#pace.chars) return true
    return this.#pace.clock !== undefined && this.dueInMs === 0
  }

  /** Settles what no more text can change, when it is time to, while more of the same batch follows. @throws OutputBlocked */
  *settling(): Generator<void> {
    if (!this.isDue) return
    this.#askedAtMs = this.#now
    if (this.#isWorthAsking) yield* this.#asking(false)
    this.#isMidBatch = this.#pace.isLive === true
  }

  /** As `settling`, when somebody waits for it. @throws OutputBlocked */
  *settlingNow(): Generator<void> {
    this.#askedAtMs = this.#now
    if (this.#isWorthAsking) yield* this.#asking(this.#pace.isLive === true)
  }

  /** As `settlingNow`, when no more has come for a while, however little it was. @throws OutputBlocked */
  *catchingUp(): Generator<void> {
    this.#askedAtMs = this.#now
    if (this.isBehind) yield* this.#asking(this.#pace.isLive === true)
  }

  get #now(): number {
    return this.#pace.clock?.monotonic() ?? 0
  }

  get #isWorthAsking(): boolean {
    const longValueChars = Math.max(0, this.#askedTo - this.#settledTo - LIVE_HOLD_CHARS)
    return this.#isMidBatch || (this.isBehind && this.#end - this.#askedTo >= longValueChars * ASK_PER_HELD)
  }

  /** @param isLive what is open and has not begun is let go of beyond LIVE_HOLD_CHARS */
  *#asking(isLive: boolean): Generator<void> {
    const end = this.#end
    const settledTo = this.#settledTo
    this.#setAsked(end)
    const { open, leave } = yield* this.#borders(isLive)
    if (leave > settledTo) yield* this.#settleTo(leave)
    if (this.#settledTo > Math.max(settledTo, open)) this.#letGoAt = this.#settledTo
    if (end - this.#settledTo > HELD_CHARS) yield* this.lettingGo()
  }

  /** Settles everything that has come. When more comes after all, it may complete a value whose beginning has left. */
  *lettingGo(): Generator<void> {
    const end = this.#end
    this.#setAsked(end)
    if (this.#settledTo < end) yield* this.#settleTo(end)
    this.#letGoAt = end
    // More text may continue what has left.
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

  /** In the window. */
  get #decided(): number {
    return Math.max(0, this.#decidedTo - this.#windowFrom)
  }

  /** Settles everything, for nothing more comes. */
  *ending(): Generator<void> {
    this.#window += this.#view.end()
    yield* this.lettingGo()
    this.#rawSettledTo = this.#rawFrom + this.#raw.length
  }

  /** The next so many characters, as they may leave; at most those that are `ready`. */
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

  /** Where something is open, and up to where text leaves all the same: not before the end of what has begun. */
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
    // What can only be replaced as a whole is not let go of in half.
    let whole = leave < window.length ? this.#view.widen(from + leave, from + leave + 1).start : from + leave
    const bound = this.#liveBound
    if (isLive && leave >= bound) whole = Math.max(whole, from + bound)
    return { open: Math.min(from + open, whole), leave: whole }
  }

  /** In the window: where the text begins that may wait although no value has begun in it. */
  get #liveBound(): number {
    const window = this.#window
    const at = Math.max(0, window.length - LIVE_HOLD_CHARS)
    return isHighSurrogate(window.charCodeAt(at - 1)) ? at + 1 : at
  }

  /** Up to where text leaves that one detector would hold from `open` on. */
  *#leavingOf(one: ArmedDetector, open: number): Generator<void, number> {
    const window = this.#window
    const bound = this.#liveBound
    if (open >= bound) return open
    const begun = begunFrom(one.detector, window, open)
    if (begun <= open) return open
    // What is found has begun, also where no `begunFrom` knows of it.
    const found = (yield* finding(window, [one], this.#effort, this.#decided)).filter(({ end }) => end > open)
    return found.reduce((least, { start }) => Math.max(open, Math.min(least, start)), Math.min(begun, bound))
  }

  /** Decides about everything before `limit`, and leaves out what reaches beyond it. */
  *#settleTo(limit: number): Generator<void> {
    const { hits, pseudonyms } = this.#rules
    const restored = this.#restorations()
    const findings = [...(yield* this.#findings(restored)), ...(yield* this.#refusals(restored))]
    const redactions = toRedactions(findings)
    const edits: Edit[] = restored.filter(
      ({ start, end }) => (firstEndingAfter(redactions, start)?.start ?? end) >= end,
    )
    const cut = [...redactions, ...edits].find(({ start, end }) => start < limit && limit < end)?.start ?? limit
    // One that is only logged may reach beyond the cut, which another detector has set; nothing can change it any more.
    const settled = findings.filter(({ start }) => start < cut)
    countHits(hits, settled)
    for (const redaction of redactions) {
      if (redaction.end > cut) continue
      if (redaction.action === 'block') throw new OutputBlocked(hits)
      edits.push(toEdit(redaction, this.#window, pseudonyms, this.#windowFrom))
    }
    const due = edits.filter(({ end }) => end <= cut).sort((a, b) => a.start - b.start)
    this.#edits = this.#edits.slice(this.#editsTaken)
    this.#editsTaken = 0
    for (const edit of due) this.#edits.push(...this.#view.toRawEdits(edit))
    // A finding that is only logged may reach over the cut; it must be found as a whole again, not in part.
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
    const found = pseudonyms.find(this.#window).map(({ start, end, type, value }) => {
      return { start: start + this.#windowFrom, end: end + this.#windowFrom, type, text: value }
    })
    return found.filter(({ start }) => start >= this.#settledTo)
  }

  /** The pseudonyms whose values rules for answers do not let out: the rules are about what whoever asked would read. */
  *#refusals(restored: readonly Restoration[]): Generator<void, ActedFinding[]> {
    const { armed } = this.#rules
    const effort = this.#effort
    const refusals: ActedFinding[] = []
    for (const { start, end, type, text } of restored) {
      for (const one of armed) {
        const isKnown = one.detector.types?.includes(type)
        const types = isKnown ? [type] : (yield* finding(text, [one], effort)).map((found) => found.type)
        for (const found of types) {
          const action = one.actionOf(found)
          // A rule that asks for a pseudonym has its wish: the value has been one, and comes back where one does.
          if (action === 'tokenize' || action === 'log') continue
          refusals.push({ start, end, type: found, confidence: 1, guard: one.guard, action })
        }
      }
    }
    return refusals
  }

  /** What was found in what is not settled. A pseudonym of ours is not what it looks like. */
  *#findings(restored: readonly Edit[]): Generator<void, ActedFinding[]> {
    const { armed } = this.#rules
    const settledTo = this.#settledTo
    const findings: ActedFinding[] = []
    for (const found of yield* finding(this.#window, armed, this.#effort, this.#decided)) {
      let start = found.start + this.#windowFrom
      const end = found.end + this.#windowFrom
      if (end <= settledTo) continue
      if (start < settledTo) {
        // Only in what was let go of can something have begun; else it is an artefact of where the window begins.
        if (this.#letGoAt !== settledTo && found.type !== UNREAD) continue
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

/** Of stretches in order and apart the first that is not over at `offset`. */
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
