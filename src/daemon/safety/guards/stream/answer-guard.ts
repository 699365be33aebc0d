import { appendTo } from '../../../../shared/lists.ts'
import type { Clock, Timer } from '../../../../shared/time.ts'
import type { ChatPart } from '../../../models/provider.ts'
import { createPacer, type ResumablePacer, runInSlices, runToEnd } from '../../../platform/pacing.ts'
import type { GuardIncident } from '../../incidents/incident.ts'
import type { CleanTexts } from '../clean-texts.ts'
import type { Guards } from '../guards.ts'
import { type ArmedDetector, type GuardHit, screening } from '../redaction.ts'
import type { GuardedRequest } from '../request/request-screening.ts'
import { type AnswerShield, shieldAnswer } from './answer-shield.ts'
import { Channel, type ChannelRules } from './channel.ts'
import { createOutputGuard, type OutputGuard } from './output-guard.ts'
import {
  armCanaries,
  armLeaks,
  armUrls,
  CANARY,
  CANARY_LEAK,
  LEAK_CATEGORY,
  LEAK_GUARD,
  leaksFor,
} from './request-guards.ts'
import type { TextFormat } from './text-view.ts'

/** The guards that screen a model's response before the client receives the response. */
export type AnswerGuard = {
  /** Whether these guards can block or change the response. Otherwise they only count findings. */
  readonly acts: boolean
  /**
   * Like `pass` of OutputGuard, but yields to the event loop during long scans. Await the result before the next
   * `pass`.
   */
  pass(parts: readonly ChatPart[]): readonly ChatPart[] | Promise<readonly ChatPart[]>
  /** Like `end` of OutputGuard. */
  end(): readonly ChatPart[] | Promise<readonly ChatPart[]>
  /**
   * Starts a watch that flushes waiting parts when the model pauses. `send` receives these parts until the watch is
   * cancelled, except during a `pass`. If an error ends the response during a pause, `end` receives this error, and
   * every later `pass` throws the same error.
   */
  whenQuiet(send: (parts: readonly ChatPart[]) => void, end: (error: unknown) => void): { cancel(): void }
  /**
   * Returns all findings in the response. The findings are stored with the bill. The result also includes findings of
   * rules that only count; these rules do not delay the response.
   */
  incidents(): GuardIncident[]
}

/** The category that a rejection reports, by the guard that blocked the answer. */
export const LEAK_CATEGORIES: ReadonlyMap<string, string> = new Map([
  [CANARY, CANARY_LEAK],
  [LEAK_GUARD, LEAK_CATEGORY],
])

type AnswerGuardDeps = { guards: Pick<Guards, 'scanner' | 'preparedPrompt'>; clock: Clock }

/**
 * Creates the guards of one response. While the response streams, the guards apply the rules of policy and tenant,
 * check for canaries and reverse pseudonyms. The prompt shield scans the response every few KB, and blocks the rest if
 * it finds an attack.
 */
export function guardAnswer(request: GuardedRequest, { guards, clock }: AnswerGuardDeps): AnswerGuard {
  const { rules, pseudonyms, options } = request
  const ofRequest = [armCanaries(request), armLeaks(request, guards), armUrls(request)].filter(
    (one) => one !== undefined,
  )
  const acting = [...rules.output.acting]
  const watchingHere: ArmedDetector[] = []
  for (const { armed, acts } of ofRequest) (acts ? acting : watchingHere).push(armed)
  const isJson = options?.responseFormat !== undefined && options.responseFormat.type !== 'text'
  const textFormat = isJson ? 'json' : 'text'
  const pacer = createPacer()
  const guard =
    acting.length > 0 || pseudonyms
      ? createOutputGuard({ armed: acting, pseudonyms, clock, textFormat, effort: pacer })
      : undefined
  const shield = shieldAnswer(request, leaksFor(request, guards), guards)
  const { watching } = rules.output
  const counter =
    watching.length + watchingHere.length > 0
      ? new OutputCounter({ armed: watching, effort: pacer }, watchingHere, textFormat, rules.cleanTexts)
      : undefined

  const quiet = guard && createQuietWatch(guard, clock, pacer)

  function pass(parts: readonly ChatPart[]): readonly ChatPart[] | Promise<readonly ChatPart[]> {
    const catchUp = quiet?.running
    if (catchUp) return catchUp.then(() => pass(parts))
    counter?.add(parts)
    shield?.add(parts)
    if (!counter?.isDue && !shield?.isDue) {
      if (!guard || !quiet) return parts
      if (quiet.keep(parts)) return NO_PARTS
    }
    pacer.resume()
    const work = passing(parts, { guard, counter, shield })
    return runInSlices(quiet ? quiet.around(work) : work, pacer)
  }

  return {
    acts: guard !== undefined || shield !== undefined,
    pass,
    whenQuiet: (send, end) => quiet?.start(send, end) ?? NO_PENDING_TEXT,
    end: () => quiet?.running?.then(() => guard?.end() ?? []) ?? guard?.end() ?? [],
    incidents() {
      const hits = [...(guard?.hits ?? []), ...(counter?.end() ?? [])]
      const incidents: GuardIncident[] = rules.output.incidentsOf(hits, 'output')
      if (hits.length > 0) for (const { incidentsOf } of ofRequest) incidents.push(...incidentsOf(hits))
      const found = shield?.end()
      const isKnown = found?.category === LEAK_CATEGORY && hits.some(({ guard }) => guard === LEAK_GUARD)
      if (found && !isKnown) incidents.push(found)
      return incidents
    },
  }
}

// Use module functions or methods for generators, never closures. For each generator closure, V8 creates a new hidden
// class and thereby loses the type feedback. This costs 25,000 instructions per request (measured).
function* passing(
  parts: readonly ChatPart[],
  {
    guard,
    counter,
    shield,
  }: { guard: OutputGuard | undefined; counter: OutputCounter | undefined; shield: AnswerShield | undefined },
): Generator<void, readonly ChatPart[]> {
  if (shield?.isDue) yield* shield.looking()
  if (counter) yield* counter.counting()
  return guard ? yield* guard.passing(parts) : parts
}

const NO_PARTS: readonly ChatPart[] = []
const NO_PENDING_TEXT = { cancel() {} }

/** When a model pauses, flushes the buffered text before users notice the delay. */
function createQuietWatch(guard: OutputGuard, clock: Clock, pacer: ResumablePacer) {
  let send: ((parts: readonly ChatPart[]) => void) | undefined
  let end: ((error: unknown) => void) | undefined
  let timer: Timer | undefined
  let isPassing = false
  let failure: { error: unknown } | undefined
  /** Resolves when the guard may be used again. Undefined if the guard may be used now. */
  let running: Promise<void> | undefined

  function watch(): void {
    if (!send || timer) return
    const dueInMs = guard.dueInMs
    if (dueInMs !== undefined) timer = clock.after(dueInMs, catchUp)
  }

  function catchUp(): void {
    timer = undefined
    // A `pass` is running; it flushes the text and restarts the watch.
    if (isPassing) return
    // A `pass` has run since the timer was set, so the wait starts again.
    if (guard.dueInMs !== 0) {
      watch()
      return
    }
    pacer.resume()
    try {
      const parts = runInSlices(guard.catchingUp(), pacer)
      if (parts instanceof Promise) running = parts.then(leave).catch(fail).then(through)
      else leave(parts)
    } catch (error) {
      fail(error)
    }
  }

  function through(): void {
    running = undefined
  }

  function leave(parts: readonly ChatPart[]): void {
    if (parts.length > 0) send?.(parts)
  }

  function fail(error: unknown): void {
    failure = { error }
    end?.(error)
  }

  return {
    get running(): Promise<void> | undefined {
      return running
    },
    start(onParts: (parts: readonly ChatPart[]) => void, onError: (error: unknown) => void) {
      send = onParts
      end = onError
      return {
        cancel() {
          send = undefined
          end = undefined
          timer?.cancel()
        },
      }
    },
    /** Like `keep` of OutputGuard. */
    keep(parts: readonly ChatPart[]): boolean {
      if (failure || !guard.keep(parts)) return false
      watch()
      return true
    },
    *around(work: Generator<void, readonly ChatPart[]>): Generator<void, readonly ChatPart[]> {
      if (failure) throw failure.error
      isPassing = true
      try {
        return yield* work
      } finally {
        isPassing = false
        watch()
      }
    },
  }
}

/** How many characters the counting rules scan at a time. */
const COUNTED_CHARS = 8_192

/**
 * Counts findings in each text of a response: the content, the reasoning, and the arguments of each tool call. Scans
 * while the response streams, so that little work remains at the end.
 */
class OutputCounter {
  readonly #rules: Omit<ChannelRules, 'pseudonyms' | 'hits'>
  readonly #ofRequest: readonly ArmedDetector[]
  readonly #textFormat: TextFormat
  readonly #cleanTexts: CleanTexts
  readonly #hits: GuardHit[] = []
  readonly #texts = new Map<string | number, WatchedText>()
  #isDue = false
  #isOver = false
  #isCounted = false

  /** @param ofRequest the detectors that only this request has, so that their results cannot be cached */
  constructor(
    watching: Omit<ChannelRules, 'pseudonyms' | 'hits'>,
    ofRequest: readonly ArmedDetector[],
    textFormat: TextFormat,
    cleanTexts: CleanTexts,
  ) {
    this.#rules = watching
    this.#ofRequest = ofRequest
    this.#textFormat = textFormat
    this.#cleanTexts = cleanTexts
  }

  add(parts: readonly ChatPart[]): void {
    for (const part of parts) {
      if (part.type === 'text') this.#add('text', this.#textFormat, part.text)
      else if (part.type === 'reasoning') this.#add('reasoning', 'text', part.text)
      else if (part.type === 'tool_call') this.#add(part.index, 'json', part.arguments)
      else if (part.type === 'end') this.#isDue = this.#isOver = true
    }
  }

  /** Whether a scan is due: enough text is buffered, or the response has ended. */
  get isDue(): boolean {
    return this.#isDue
  }

  /** Scans the buffered text that is due, and yields regularly. */
  *counting(): Generator<void> {
    for (const watched of this.#texts.values()) {
      for (let at = 0; watched.waiting.length - at >= COUNTED_CHARS; at += COUNTED_CHARS) {
        watched.channel ??= new Channel({ ...this.#all, pseudonyms: undefined, hits: this.#hits }, watched.format)
        watched.channel.add(watched.waiting.slice(at, at + COUNTED_CHARS))
        yield* watched.channel.settling()
        watched.channel.take(watched.channel.ready)
      }
      watched.waiting = watched.waiting.slice(watched.waiting.length - (watched.waiting.length % COUNTED_CHARS))
    }
    this.#isDue = false
    if (!this.#isOver || this.#isCounted) return
    this.#isCounted = true
    for (const watched of this.#texts.values()) yield* this.#countingRest(watched)
  }

  /** Returns the findings in all texts. */
  end(): readonly GuardHit[] {
    this.#isOver = true
    if (!this.#isCounted) runToEnd(this.counting())
    return this.#hits
  }

  #add(name: string | number, format: TextFormat, text: string): void {
    let watched = this.#texts.get(name)
    if (!watched) {
      watched = { format, waiting: '', channel: undefined }
      this.#texts.set(name, watched)
    }
    watched.waiting += text
    this.#isDue ||= watched.waiting.length >= COUNTED_CHARS
  }

  get #all(): Omit<ChannelRules, 'pseudonyms' | 'hits'> {
    return { ...this.#rules, armed: [...this.#rules.armed, ...this.#ofRequest] }
  }

  *#countingRest({ channel, waiting, format }: WatchedText): Generator<void> {
    if (!channel) {
      const { armed, effort } = this.#rules
      if (armed.length > 0) {
        appendTo(this.#hits, (yield* this.#cleanTexts.screening(waiting, format, armed, effort)).hits)
      }
      const own = format === 'json' ? this.#ofRequest : this.#ofRequest.filter(mayFindIn(waiting))
      if (own.length > 0) appendTo(this.#hits, (yield* screening(waiting, format, own, undefined, effort)).hits)
      return
    }
    channel.add(waiting)
    yield* channel.ending()
  }
}

const mayFindIn =
  (text: string) =>
  ({ detector }: ArmedDetector): boolean =>
    detector.mayFind?.(text) ?? true

type WatchedText = { format: TextFormat; waiting: string; channel: Channel | undefined }
