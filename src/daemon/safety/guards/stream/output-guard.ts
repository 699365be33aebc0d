// Keeps the parts of a response in order while some of their texts are held back. This file is long, because all
// channels share the queue in which parts wait.
import type { Clock } from '../../../../shared/time.ts'
import type { ChatPart } from '../../../models/provider.ts'
import { runToEnd } from '../../../platform/pacing.ts'
import { DETECTION_HOLD_CHARS, type Effort } from '../detection.ts'
import type { Pseudonyms } from '../pseudonyms.ts'
import type { ArmedDetector, GuardHit } from '../redaction.ts'
import { Channel, type ChannelRules, type Pace } from './channel.ts'
import { OutputBlocked } from './output-blocked.ts'
import type { TextFormat } from './text-view.ts'

export type OutputGuardPlan = {
  armed: readonly ArmedDetector[]
  /**
   * The request's pseudonyms. The guard reverses these pseudonyms in the response, and creates pseudonyms for findings
   * to be tokenized.
   */
  pseudonyms?: Pseudonyms | undefined
  /** Without a clock, detectors run on every batch. */
  clock?: Pick<Clock, 'monotonic'> | undefined
  /** `json` if the client requested JSON, so that the response remains valid JSON. Tool arguments are always JSON. */
  textFormat?: TextFormat | undefined
  /** The remaining step budget of customers' patterns. Unlimited by default. */
  effort?: Effort | undefined
}

/**
 * The guards of one response, streamed or not. The guards screen text, reasoning and tool arguments, but not ids and
 * names. Released text is never retracted. The result does not depend on how the response was split into chunks. There
 * are two exceptions: some kinds of values are recognized only after their start was released (docs/guards.md,
 * Streams).
 */
export type OutputGuard = {
  /**
   * Accepts new parts, and returns the parts that may be sent, in order. Holds back text that may still become a
   * finding, and everything after that text.
   * @throws OutputBlocked, on this call and each later call
   */
  pass(parts: readonly ChatPart[]): readonly ChatPart[]
  /**
   * Like `pass`, but yields after each detector and every PIECE_CHARS, so that other work can run. Do not pass other
   * parts until the generator has finished.
   */
  passing(parts: readonly ChatPart[]): Generator<void, readonly ChatPart[]>
  /**
   * Accepts the parts only if `pass` would return nothing, because all parts must wait for more text. This is the usual
   * case in a continuous stream. Returns false if the parts were not accepted.
   */
  keep(parts: readonly ChatPart[]): boolean
  /** How many milliseconds new text may wait for further text before detectors must run. Undefined if no text waits. */
  readonly dueInMs: number | undefined
  /** Like `passing`, but without new parts: runs the detectors on all text, and returns the parts that may be sent. */
  catchingUp(): Generator<void, readonly ChatPart[]>
  /**
   * Returns the remaining parts of an interrupted response. If a response is complete, its `end` part releases these
   * parts automatically.
   * @throws OutputBlocked
   */
  end(): readonly ChatPart[]
  /** The hits counted so far. */
  readonly hits: readonly GuardHit[]
}

export const createOutputGuard = (plan: OutputGuardPlan): OutputGuard => new PartGuard(plan)

/**
 * The maximum length of text and reasoning that waits for another channel. Text waits because a model may split a value
 * by alternating between channels. The limit is low, because reasoning has usually ended when the text begins;
 * providers do not signal its end.
 */
const INTERLEAVED_TEXT_CHARS = 64
/** The size of the steps in which a response that arrives in one chunk is processed. */
const PIECE_CHARS = 8_192
/**
 * The maximum length of tool arguments that wait for another channel. This limit is larger than the limit for text,
 * because clients read tool arguments only when the arguments are complete.
 */
const INTERLEAVED_ARGUMENT_CHARS = DETECTION_HOLD_CHARS

// A chunk is often a single word. Running all detectors on each chunk would take a large part of the forwarding time
// (`npm run bench -- guards`). Output in steps of this size still looks fluent to users. The first words of a channel
// are released immediately.
const ASK_EVERY_CHARS = 2_048
/** After a pause of this length, detectors run on the text received so far. */
const ASK_EVERY_MS = 120

type TextPart = Extract<ChatPart, { type: 'text' | 'reasoning' | 'tool_call' }>

/** An outgoing part, or several consecutive parts that are joined. */
type Waiting = {
  part: ChatPart
  /** Whether several parts are joined. If so, `part` is the first of these parts. */
  isJoined: boolean
  /** Undefined for a part without text. */
  channel: Channel | undefined
  /** The number of characters that have not been sent. */
  left: number
  /** Whether some of the text has been sent. */
  isBegun: boolean
  /** Whether the released text differs from the original. */
  isChanged: boolean
}

class PartGuard implements OutputGuard {
  readonly hits: GuardHit[] = []
  readonly #pace: Pace
  readonly #rules: ChannelRules
  readonly #text: Channel
  readonly #reasoning: Channel
  readonly #calls = new Map<number, Channel>()
  #waiting: Waiting[] = []
  /** Whether the current reasoning step differs from the model's original. */
  #isStepChanged = false
  #blocked: OutputBlocked | undefined

  constructor({ armed, pseudonyms, clock, effort, textFormat = 'text' }: OutputGuardPlan) {
    this.#pace = clock ? { chars: ASK_EVERY_CHARS, ms: ASK_EVERY_MS, clock, isLive: true } : { chars: 1, isLive: true }
    this.#rules = { armed, pseudonyms, effort, hits: this.hits }
    this.#text = this.#open(textFormat)
    this.#reasoning = this.#open('text')
  }

  pass(parts: readonly ChatPart[]): readonly ChatPart[] {
    return runToEnd(this.passing(parts))
  }

  passing(parts: readonly ChatPart[]): Generator<void, readonly ChatPart[]> {
    return this.#guarded(this.#passing(parts))
  }

  keep(parts: readonly ChatPart[]): boolean {
    const [part, second] = parts
    if (part?.type !== 'text' || second !== undefined || this.#blocked) return false
    const { length } = part.text
    const isFollowed = this.#waiting.length > 1 || (this.#waiting.length === 1 && !this.#isJoinable(part))
    if (isFollowed || length === 0 || length > PIECE_CHARS || this.#text.isDueWith(length)) return false
    this.#wait(part, this.#text, length)
    this.#text.add(part.text)
    return true
  }

  get dueInMs(): number | undefined {
    let least: number | undefined
    for (const channel of this.#channels()) {
      if (channel.isBehind) least = Math.min(least ?? channel.dueInMs, channel.dueInMs)
    }
    return least
  }

  catchingUp(): Generator<void, readonly ChatPart[]> {
    return this.#guarded(this.#catchingUp())
  }

  end(): readonly ChatPart[] {
    return runToEnd(this.#guarded(this.#ending()))
  }

  *#guarded(work: Generator<void, readonly ChatPart[]>): Generator<void, readonly ChatPart[]> {
    if (this.#blocked) throw this.#blocked
    try {
      return yield* work
    } catch (error) {
      if (error instanceof OutputBlocked) this.#blocked = error
      throw error
    }
  }

  *#passing(parts: readonly ChatPart[]): Generator<void, readonly ChatPart[]> {
    const isFresh = this.#waiting.length === 0
    const touched = new Set<Channel>()
    let chars = 0
    for (const part of parts) {
      const channel = this.#channelOf(part)
      const text = channel ? textOf(part as TextPart) : ''
      this.#wait(part, channel, text.length)
      for (let at = 0; at < text.length; at += PIECE_CHARS) {
        const piece = text.slice(at, at + PIECE_CHARS)
        channel?.add(piece)
        if (channel) touched.add(channel)
        chars += piece.length
        if (chars < PIECE_CHARS) continue
        for (const one of touched) yield* one.settling()
        chars = 0
      }
      // A seal ends its reasoning step, so all reasoning before it is settled.
      if (isSeal(part)) yield* this.#reasoning.releasing()
      if (part.type === 'end') yield* this.#endingChannels()
    }
    for (const channel of touched) if (channel.isDue) yield* channel.settlingNow()
    const leaving = yield* this.#leaving()
    const isSame = isFresh && leaving.length === parts.length && leaving.every((part, at) => part === parts[at])
    return isSame ? parts : leaving
  }

  *#catchingUp(): Generator<void, readonly ChatPart[]> {
    for (const channel of this.#channels()) yield* channel.catchingUp()
    return yield* this.#leaving()
  }

  *#ending(): Generator<void, readonly ChatPart[]> {
    yield* this.#endingChannels()
    return yield* this.#leaving()
  }

  #wait(part: ChatPart, channel: Channel | undefined, chars: number): void {
    const last = this.#waiting.at(-1)
    if (last && this.#isJoinable(part)) {
      last.isJoined = true
      last.left += chars
    } else this.#waiting.push({ part, isJoined: false, channel, left: chars, isBegun: false, isChanged: false })
  }

  /**
   * Whether this part may be joined with the last waiting part. Sending one part instead of two reduces the work
   * downstream.
   */
  #isJoinable(part: ChatPart): boolean {
    const last = this.#waiting.at(-1)?.part
    return last !== undefined && isText(part) && isText(last) && isPlain(part) && isOpenTo(last, part)
  }

  #channelOf(part: ChatPart): Channel | undefined {
    if (part.type === 'text') return this.#text
    if (part.type === 'reasoning') return this.#reasoning
    if (part.type !== 'tool_call') return undefined
    let channel = this.#calls.get(part.index)
    if (!channel) {
      channel = this.#open('json')
      this.#calls.set(part.index, channel)
    }
    return channel
  }

  #open(format: TextFormat): Channel {
    return new Channel(this.#rules, format, this.#pace)
  }

  *#endingChannels(): Generator<void> {
    for (const channel of this.#channels()) yield* channel.ending()
  }

  #channels(): Channel[] {
    return [this.#text, this.#reasoning, ...this.#calls.values()]
  }

  /**
   * Releases the parts that may be sent. If too much text waits after the first part, releases the first part early.
   */
  *#leaving(): Generator<void, ChatPart[]> {
    const out = new Outgoing()
    this.#leaveReady(out)
    while (this.#waiting.length > 0) {
      const first = this.#waiting[0]?.channel
      if (!first || this.#waiting.at(-1)?.channel === first) break
      yield* first.settlingNow()
      this.#leaveReady(out)
      if (this.#waiting[0]?.channel === first && this.#isFull()) {
        yield* first.releasing()
        this.#leaveReady(out)
      }
      if (this.#waiting[0]?.channel === first) break
    }
    return out.parts
  }

  #leaveReady(out: Outgoing): void {
    let gone = 0
    for (const waiting of this.#waiting) {
      if (!this.#leaveOne(waiting, out)) break
      gone++
    }
    if (gone > 0) this.#waiting = this.#waiting.slice(gone)
  }

  /** Sends one waiting part. Returns false if some of the text must wait. */
  #leaveOne(waiting: Waiting, out: Outgoing): boolean {
    const { part, channel } = waiting
    if (!channel) {
      out.add(part)
      return true
    }
    const chars = Math.min(waiting.left, channel.ready)
    if (chars === 0 && waiting.left > 0) return false
    const { text, isChanged } = channel.take(chars)
    const isFirst = !waiting.isBegun
    waiting.left -= chars
    waiting.isBegun = true
    waiting.isChanged ||= isChanged
    const isLast = waiting.left === 0
    if (part.type === 'reasoning') this.#isStepChanged ||= isChanged
    const isBroken = this.#isStepChanged && isSealOfText(part)
    if (isLast && isSeal(part)) this.#isStepChanged = false
    if (isFirst && isLast && !isChanged && !isBroken && !waiting.isJoined) out.add(part)
    else out.addPiece(toPiece(part as TextPart, text, { isFirst, isSealed: isLast && !waiting.isChanged && !isBroken }))
    return isLast
  }

  #isFull(): boolean {
    const first = this.#waiting[0]?.channel
    if (!first) return false
    let textChars = 0
    let argumentChars = 0
    if (first !== this.#text) textChars += this.#text.waiting
    if (first !== this.#reasoning) textChars += this.#reasoning.waiting
    for (const call of this.#calls.values()) if (call !== first) argumentChars += call.waiting
    return textChars > INTERLEAVED_TEXT_CHARS || argumentChars > INTERLEAVED_ARGUMENT_CHARS
  }
}

/**
 * Collects outgoing parts. Joins consecutive pieces of a part that was split; otherwise, splitting would increase the
 * number of parts.
 */
class Outgoing {
  readonly parts: ChatPart[] = []
  /** The last part, if another piece can be appended to it. */
  #open: TextPart | undefined

  add(part: ChatPart): void {
    this.parts.push(part)
    this.#open = undefined
  }

  addPiece(piece: TextPart): void {
    if (isEmpty(piece)) return
    if (this.#open && isPlain(piece) && isOpenTo(this.#open, piece)) {
      if (this.#open.type === 'tool_call') this.#open.arguments += textOf(piece)
      else this.#open.text += textOf(piece)
      return
    }
    this.parts.push(piece)
    this.#open = piece
  }
}

const isText = (part: ChatPart): part is TextPart =>
  part.type === 'text' || part.type === 'reasoning' || part.type === 'tool_call'

const textOf = (part: TextPart): string => (part.type === 'tool_call' ? part.arguments : part.text)

/** Whether the part ends a reasoning step: it contains the provider's signature or encrypted data. */
const isSeal = (part: ChatPart): boolean =>
  part.type === 'reasoning' && (part.signature !== undefined || part.data !== undefined)

/**
 * Whether the part's signature covers the text of the reasoning step, and so becomes invalid if this text changes.
 * `isSignatureOfPart` marks signatures that do not cover the text.
 */
const isSealOfText = (part: ChatPart): boolean => isSeal(part) && part.type === 'reasoning' && !part.isSignatureOfPart

/**
 * Returns a copy of the part with the given text. If `isSealed`, the copy keeps all attributes of the part, such as
 * logprobs and the signature. Otherwise the copy omits these attributes: the attributes would not match the new text,
 * or would reveal the original text.
 */
function toPiece(
  part: TextPart,
  text: string,
  { isFirst, isSealed }: { isFirst: boolean; isSealed: boolean },
): TextPart {
  if (part.type === 'tool_call') {
    const { index, id, name, native } = part
    if (!isFirst) return { type: 'tool_call', index, arguments: text }
    return {
      type: 'tool_call',
      index,
      ...(id !== undefined && { id }),
      ...(name !== undefined && { name }),
      ...(native && { native }),
      arguments: text,
    }
  }
  if (isSealed) return { ...part, text }
  if (part.type === 'text') return { type: 'text', text }
  return { type: 'reasoning', text, ...(part.origin !== undefined && { origin: part.origin }) }
}

const isEmpty = (piece: TextPart): boolean => textOf(piece) === '' && isPlain(piece)

/** Whether the piece has no attributes other than its text. */
function isPlain(piece: TextPart): boolean {
  if (piece.type === 'text') return piece.logprobs === undefined
  if (piece.type === 'tool_call') return piece.id === undefined && piece.name === undefined
  return !isSeal(piece)
}

/** Whether the plain `piece` may be appended to the part `open`. */
function isOpenTo(open: TextPart, piece: TextPart): boolean {
  if (open.type !== 'tool_call' && !isPlain(open)) return false
  if (open.type === 'tool_call') return piece.type === 'tool_call' && piece.index === open.index
  if (open.type === 'reasoning') return piece.type === 'reasoning' && piece.origin === open.origin
  return piece.type === 'text'
}
