// Reads responses of chat completions that have several choices (`n`). Each choice is read like a response of its own.
import { appendTo } from '../../../../shared/lists.ts'
import { isObject, type Json, member } from '../../../platform/text/json.ts'
import { type ChatPart, ProviderError, type TokenUsage } from '../../provider.ts'
import type { AnswerAssembly, AnswerFormat } from '../stream/answer-format.ts'
import { assembleAnswer } from '../stream/assembly.ts'
import { type Ending, worseEnding } from '../stream/ending.ts'
import { END_MARK, isHeartbeat, parseEvent } from '../stream/event-json.ts'
import { truncatedError, unreadableError } from '../stream/failure.ts'
import { createSseReader } from '../stream/sse.ts'
import type { SseEvent } from '../stream/sse-event.ts'
import { withWholeCalls } from '../stream/tool-arguments.ts'
import { toTokenUsage } from './usage.ts'

/**
 * Decodes responses with `count` choices. The parts end when all choices are complete. A response with a missing or
 * broken choice is broken.
 * @param one the format of a response with one choice
 */
export const choicesFormat = (one: AnswerFormat, count: number): AnswerFormat => ({
  ...one,
  createAssembly: () => new ChoicesAssembly(one, count),
  decodeBody: (body) => decodeChoices(body, one, count),
})

function decodeChoices(body: unknown, one: AnswerFormat, count: number): ChatPart[] {
  const groups = isObject(body) ? groupsOf(body, count) : undefined
  // The response is an error, or it cannot be read.
  if (!isObject(body) || !groups || groups.size === 0) return one.decodeBody(body)
  const parts: ChatPart[] = []
  let ending: Ending | undefined
  for (let index = 0; index < count; index++) {
    const choices = groups.get(index)
    if (!choices) throw tooFew(groups.size, count)
    const own = withWholeCalls(one.decodeBody(withChoices(body, choices)), one)
    parts.push({ type: 'choice', index, parts: own })
    ending = worseOf(ending, own)
  }
  return [...parts, { type: 'end', ...(ending as Ending), usage: toTokenUsage(body.usage, body.service_tier) }]
}

/** Assembles the choices of a stream, each with the assembly of a single answer. Their chunks may be in any order. */
class ChoicesAssembly implements AnswerAssembly {
  readonly #events = createSseReader()
  readonly #choices: Choice[]
  #parts: ChatPart[] = []
  /** The choice whose parts were added last. */
  #open: { index: number; parts: ChatPart[] } | undefined
  #usage: TokenUsage | undefined
  #reportedUsage: TokenUsage | undefined
  /** Whether the latest counts cover all content received so far. */
  #isCounted = false
  #hasOutput = false
  #isDone = false
  #hasEnded = false
  #failure: { reason: unknown } | undefined

  constructor(format: AnswerFormat, count: number) {
    this.#choices = Array.from({ length: count }, () => new Choice(format))
  }

  state(): ReturnType<AnswerAssembly['state']> {
    if (this.#failure) return 'broken'
    if (this.#hasEnded) return 'ended'
    return this.#choices.every((choice) => choice.isFinishing) ? 'finishing' : 'open'
  }

  take(bytes: Buffer | null): ChatPart[] {
    if (this.#failure) throw this.#failure.reason
    const parts: ChatPart[] = []
    this.#parts = parts
    this.#open = undefined
    try {
      this.#takeAll(bytes)
    } catch (reason) {
      this.#reportUsage()
      if (parts.length === 0) throw reason
      this.#failure = { reason }
    }
    if (!this.#hasEnded) this.#reportUsage()
    this.#parts = []
    this.#open = undefined
    return parts
  }

  #takeAll(bytes: Buffer | null): void {
    for (const event of bytes ? this.#events.read(bytes) : this.#events.end()) {
      this.#takeEvent(event)
      if (this.#isDone) break
    }
    if (this.#isDone || bytes === null) this.#end()
  }

  #takeEvent({ name, data, cut }: SseEvent): void {
    const trimmed = data.trim()
    if (trimmed === END_MARK) this.#isDone = true
    if (this.#isDone || isHeartbeat(trimmed)) return
    const chunk = parseEvent(trimmed, cut)
    if (!chunk) return
    const { service_tier: tier } = chunk
    const usage = toTokenUsage(chunk.usage, tier) ?? toTokenUsage(member(chunk.x_groq, 'usage'), tier)
    const groups = groupsOf(chunk, this.#choices.length)
    // A chunk without choices may report an error.
    if (!groups || groups.size === 0) this.#choices[0]?.take({ name, data: jsonWith(chunk, undefined), cut: false })
    for (const [index, choices] of groups ?? []) {
      const choice = this.#choices[index] as Choice
      choice.hasBegun = true
      this.#addParts(index, choice.take({ name, data: jsonWith(chunk, choices), cut: false }))
      choice.throwFailure()
    }
    if (!usage) return
    this.#usage = usage
    this.#isCounted = true
  }

  #addParts(index: number, parts: readonly ChatPart[]): void {
    if (parts.length === 0) return
    this.#isCounted = false
    this.#hasOutput = true
    if (this.#open?.index === index) appendTo(this.#open.parts, parts)
    else {
      this.#open = { index, parts: [...parts] }
      this.#parts.push({ type: 'choice', ...this.#open })
    }
  }

  #end(): void {
    const begun = this.#choices.filter((choice) => choice.hasBegun)
    if (begun.length < this.#choices.length) {
      // A server that does not have `n` completes one choice.
      const ignoresN = begun.length > 0 && begun.every((choice) => choice.isFinishing)
      throw ignoresN ? tooFew(begun.length, this.#choices.length) : truncatedError()
    }
    const isCounted = this.#isCounted
    let ending: Ending | undefined
    for (const [index, choice] of this.#choices.entries()) {
      const parts = choice.end()
      this.#addParts(index, parts)
      choice.throwFailure()
      ending = worseOf(ending, parts)
    }
    if (!isCounted) this.#reportUsage()
    this.#parts.push({ type: 'end', ...(ending as Ending), usage: isCounted ? this.#usage : undefined })
    this.#hasEnded = true
  }

  /** Adds the latest counts. They are billed if the answer breaks off. */
  #reportUsage(): void {
    if (!this.#hasOutput || this.#usage === undefined || this.#usage === this.#reportedUsage) return
    this.#reportedUsage = this.#usage
    this.#open = undefined
    this.#parts.push({ type: 'usage', usage: this.#usage })
  }
}

/** One choice of a stream. */
class Choice {
  readonly #assembly: AnswerAssembly
  #events: SseEvent[] = []
  hasBegun = false

  constructor(format: AnswerFormat) {
    const nextEvents = () => this.#events.splice(0)
    this.#assembly = assembleAnswer({ ...format, createEventReader: () => ({ read: nextEvents, end: nextEvents }) })
  }

  /** Whether the finish reason has arrived. */
  get isFinishing(): boolean {
    return this.#assembly.state() === 'finishing'
  }

  take(event: SseEvent): ChatPart[] {
    this.#events.push(event)
    return this.#assembly.take(NO_BYTES)
  }

  /** Returns the last parts. @throws ProviderError if the finish reason is missing */
  end(): ChatPart[] {
    return this.#assembly.take(null)
  }

  /** Throws the failure that followed the parts of the last call, if any. */
  throwFailure(): void {
    if (this.#assembly.state() === 'broken') this.#assembly.take(NO_BYTES)
  }
}

const NO_BYTES = Buffer.alloc(0)

/**
 * Returns the entries of `choices` by index. Some proxies split a choice into several entries. Undefined if there is no
 * list. @throws ProviderError for an index that was not requested
 */
function groupsOf({ choices }: Json, count: number): Map<number, Json[]> | undefined {
  if (!Array.isArray(choices)) return undefined
  const groups = new Map<number, Json[]>()
  for (const choice of choices) {
    if (!isObject(choice)) throw unreadableError('a choice that is not an object')
    const index = choice.index ?? 0
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= count) {
      throw unreadableError('a choice that was not requested')
    }
    const group = groups.get(index) ?? []
    groups.set(index, group)
    // Counts in a choice may concern this choice or all choices, so only the counts of the whole response are used.
    group.push({ ...choice, index: 0, usage: undefined })
  }
  return groups
}

/** Returns the response with these choices only, and without counts, which concern all choices. */
const withChoices = (response: Json, choices: readonly Json[] | undefined): Json => ({
  ...response,
  usage: undefined,
  ...(isObject(response.x_groq) && { x_groq: { ...response.x_groq, usage: undefined } }),
  choices,
})

const jsonWith = (chunk: Json, choices: readonly Json[] | undefined): string =>
  JSON.stringify(withChoices(chunk, choices))

/** Returns the worse of an ending and the ending of these parts. */
function worseOf(ending: Ending | undefined, parts: readonly ChatPart[]): Ending {
  const last = parts.at(-1)
  if (last?.type !== 'end') throw truncatedError()
  const { outcome, nativeFinishReason } = last
  return worseEnding(ending, { outcome, nativeFinishReason })
}

/** A retry would end in the same way, so this is the fault of the request. */
const tooFew = (sent: number, asked: number) =>
  new ProviderError(
    'bad_request',
    `The provider sent ${sent} of ${asked} choices, so it does not support n. Send the request ${asked} times with n = 1.`,
  )
