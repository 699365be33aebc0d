import type { Clock } from '../../../../shared/time.ts'
import type { ChatPart } from '../../../models/provider.ts'
import { ORIGIN as GOOGLE_ORIGIN } from '../../../models/providers/google/signature.ts'
import { atOnce } from '../../../platform/pacing.ts'
import { DETECTION_HOLD_CHARS, type Effort } from '../detection.ts'
import type { Pseudonyms } from '../pseudonyms.ts'
import type { ArmedDetector, GuardHit } from '../redaction.ts'
import { Channel, type ChannelRules, type Pace } from './channel.ts'
import { OutputBlocked } from './output-blocked.ts'
import type { TextFormat } from './text-view.ts'

export type OutputGuardPlan = {
  armed: readonly ArmedDetector[]
  /** Those of the request: they are turned back, and made where a finding is to be tokenized. */
  pseudonyms?: Pseudonyms | undefined
  /** Without it, detectors are asked about every batch. */
  clock?: Pick<Clock, 'monotonic'> | undefined
  /** `json` where JSON was asked for, so that it stays JSON. Arguments of tools always are. */
  textFormat?: TextFormat | undefined
  /** What patterns of customers may still take; without it, all they need. */
  effort?: Effort | undefined
}

/**
 * The guards of one answer, whole or streamed. Text, reasoning and arguments of tools are looked at, ids and names are
 * not. Nothing that has left is taken back. What comes out, put together, is the same however the answer was cut into parts,
 * except for two kinds of values that are recognised only after their beginning has left (docs/guards.md, Streams).
 */
export type OutputGuard = {
  /**
   * Takes the parts that have come and returns those that may leave, in their order. Keeps back what more text could make
   * a finding, and all that follows it.
   * @throws OutputBlocked, also ever after
   */
  pass(parts: readonly ChatPart[]): readonly ChatPart[]
  /**
   * As `pass`; stops after each detector and after every PIECE_CHARS, so that others can have a turn. Nothing may be passed
   * until it has come to its end.
   */
  passing(parts: readonly ChatPart[]): Generator<void, readonly ChatPart[]>
  /**
   * Takes the parts when all there is to do is to wait for more, as with most of a stream that flows: `pass` would return
   * none. False when it did not take them.
   */
  keep(parts: readonly ChatPart[]): boolean
  /** How long text that has come since detectors were asked may wait for more of it; undefined when there is none. */
  readonly dueInMs: number | undefined
  /** As `passing`, of no more parts: what may leave of those that have come, once detectors were asked about all of them. */
  catchingUp(): Generator<void, readonly ChatPart[]>
  /** The rest, for an answer that breaks; the `end` of one that does not brings it out by itself. @throws OutputBlocked */
  end(): readonly ChatPart[]
  /** What was found until now. */
  readonly hits: readonly GuardHit[]
}

export const createOutputGuard = (plan: OutputGuardPlan): OutputGuard => new PartGuard(plan)

/**
 * So much text and reasoning of other channels waits behind one that could still go on. A value may be cut in two by what
 * comes between, but most often reasoning is just over when the text begins, and nothing says so.
 */
export const INTERLEAVED_TEXT_CHARS = 64
/** So much of an answer that comes at once is looked at in one go. */
const PIECE_CHARS = 8_192
/** Nobody reads the arguments of a tool before they are complete. */
export const INTERLEAVED_ARGUMENT_CHARS = DETECTION_HOLD_CHARS

// A chunk is often a word, and asking all detectors about each costs much of what passing it on does (npm run bench --
// guards). What comes out in steps this short still flows for the eye. The first words of a channel do not wait.
const ASK_EVERY_CHARS = 2_048
/** When nothing comes for so long, they are asked about what has come. */
const ASK_EVERY_MS = 120

type TextPart = Extract<ChatPart, { type: 'text' | 'reasoning' | 'tool_call' }>

/** A part on its way out, or several that follow each other and become one. */
type Waiting = {
  part: ChatPart
  /** Of several the first. */
  isJoined: boolean
  /** Undefined for what is not text. */
  channel: Channel | undefined
  /** Characters of it that have not left. */
  left: number
  /** Some of it has left. */
  isBegun: boolean
  /** What has left is not what came. */
  isChanged: boolean
}

class PartGuard implements OutputGuard {
  readonly hits: GuardHit[] = []
  readonly #pace: Pace
  readonly #rules: ChannelRules
  readonly #text: Channel
  readonly #reasoning: Channel
  readonly #calls: Channel[] = []
  #waiting: Waiting[] = []
  /** The step of reasoning that is under way says something else than the model did. */
  #isStepChanged = false
  #blocked: OutputBlocked | undefined

  constructor({ armed, pseudonyms, clock, effort, textFormat = 'text' }: OutputGuardPlan) {
    this.#pace = clock ? { chars: ASK_EVERY_CHARS, ms: ASK_EVERY_MS, clock, isLive: true } : { chars: 1, isLive: true }
    this.#rules = { armed, pseudonyms, effort, hits: this.hits }
    this.#text = this.#open(textFormat)
    this.#reasoning = this.#open('text')
  }

  pass(parts: readonly ChatPart[]): readonly ChatPart[] {
    return atOnce(this.passing(parts))
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
    return atOnce(this.#guarded(this.#ending()))
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
      // A seal ends its step of reasoning.
      if (isSeal(part)) yield* this.#reasoning.lettingGo()
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

  /** Whether the last part that waits and this one may leave as one: fewer parts are less work for all who come after. */
  #isJoinable(part: ChatPart): boolean {
    const last = this.#waiting.at(-1)?.part
    return last !== undefined && isText(part) && isText(last) && isPlain(part) && isOpenTo(last, part)
  }

  #channelOf(part: ChatPart): Channel | undefined {
    if (part.type === 'text') return this.#text
    if (part.type === 'reasoning') return this.#reasoning
    if (part.type !== 'tool_call') return undefined
    let channel = this.#calls[part.index]
    if (!channel) {
      channel = this.#open('json')
      this.#calls[part.index] = channel
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
    // The list of calls has holes where a provider leaves out an index.
    return [this.#text, this.#reasoning, ...this.#calls.flatMap((call) => call ?? [])]
  }

  /** Takes out of the line what may leave; lets go of the first in line when too much waits behind it. */
  *#leaving(): Generator<void, ChatPart[]> {
    const out = new Outgoing()
    this.#leaveReady(out)
    while (this.#waiting.length > 0) {
      const first = this.#waiting[0]?.channel
      if (!first || this.#waiting.at(-1)?.channel === first) break
      yield* first.settlingNow()
      this.#leaveReady(out)
      if (this.#waiting[0]?.channel === first && this.#isCrowded()) {
        yield* first.lettingGo()
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

  /** False when some of it stays. */
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

  #isCrowded(): boolean {
    const first = this.#waiting[0]?.channel
    if (!first) return false
    let textChars = 0
    let argumentChars = 0
    if (first !== this.#text) textChars += this.#text.waiting
    if (first !== this.#reasoning) textChars += this.#reasoning.waiting
    for (const call of this.#calls) if (call && call !== first) argumentChars += call.waiting
    return textChars > INTERLEAVED_TEXT_CHARS || argumentChars > INTERLEAVED_ARGUMENT_CHARS
  }
}

/** Parts on their way out. Pieces of cut parts that follow each other become one, so that cutting makes no more of them. */
class Outgoing {
  readonly parts: ChatPart[] = []
  /** The last part, when it is a piece that more can be added to. */
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

/** Where a step of reasoning ends: what its origin has signed or encrypted. */
const isSeal = (part: ChatPart): boolean =>
  part.type === 'reasoning' && (part.signature !== undefined || part.data !== undefined)

/** A signature is refused with other words than it came with. What Google signs are parts of the answer, not words. */
const isSealOfText = (part: ChatPart): boolean =>
  isSeal(part) && part.type === 'reasoning' && (part.signature !== undefined || part.origin !== GOOGLE_ORIGIN)

/**
 * A part with another text. `isSealed`: it ends with what belongs to the whole part, its logprobs and its signature; they
 * would give away what was changed, or not fit it any more.
 */
function toPiece(
  part: TextPart,
  text: string,
  { isFirst, isSealed }: { isFirst: boolean; isSealed: boolean },
): TextPart {
  if (part.type === 'tool_call') {
    const { index, id, name } = part
    if (!isFirst) return { type: 'tool_call', index, arguments: text }
    return {
      type: 'tool_call',
      index,
      ...(id !== undefined && { id }),
      ...(name !== undefined && { name }),
      arguments: text,
    }
  }
  if (isSealed) return { ...part, text }
  if (part.type === 'text') return { type: 'text', text }
  return { type: 'reasoning', text, ...(part.origin !== undefined && { origin: part.origin }) }
}

const isEmpty = (piece: TextPart): boolean => textOf(piece) === '' && isPlain(piece)

/** Has nothing but text. */
function isPlain(piece: TextPart): boolean {
  if (piece.type === 'text') return piece.logprobs === undefined
  if (piece.type === 'tool_call') return piece.id === undefined && piece.name === undefined
  return !isSeal(piece)
}

/** Whether a piece that is plain may be put to the end of this one. */
function isOpenTo(open: TextPart, piece: TextPart): boolean {
  if (open.type !== 'tool_call' && !isPlain(open)) return false
  if (open.type === 'tool_call') return piece.type === 'tool_call' && piece.index === open.index
  if (open.type === 'reasoning') return piece.type === 'reasoning' && piece.origin === open.origin
  return piece.type === 'text'
}
