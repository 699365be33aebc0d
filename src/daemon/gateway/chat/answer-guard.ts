import type { Clock, Timer } from '../../../shared/time.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { ChatPart } from '../../models/provider.ts'
import { atOnce, createPacer, paced, type ResumablePacer } from '../../platform/pacing.ts'
import { createCanaryDetector } from '../../safety/guards/canary/detector.ts'
import type { Canary } from '../../safety/guards/canary/marker.ts'
import type { CleanTexts } from '../../safety/guards/clean-texts.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import type { ArmedDetector, GuardHit } from '../../safety/guards/redaction.ts'
import { Channel, type ChannelRules } from '../../safety/guards/stream/channel.ts'
import { createOutputGuard, type OutputGuard } from '../../safety/guards/stream/output-guard.ts'
import type { TextFormat } from '../../safety/guards/stream/text-view.ts'
import type { GuardIncident } from '../../safety/incidents/incident.ts'
import { type AnswerShield, shieldAnswer } from './answer-shield.ts'
import type { Screened } from './screen.ts'

/** What stands between a model and the client. */
export type AnswerGuard = {
  /** As that of OutputGuard; others have a turn while it looks at much. Nothing may be passed before it is through. */
  pass(parts: readonly ChatPart[]): readonly ChatPart[] | Promise<readonly ChatPart[]>
  /** As that of OutputGuard. */
  end(): readonly ChatPart[] | Promise<readonly ChatPart[]>
  /**
   * From now until it is cancelled, `send` gets what may leave of parts that were kept back only to be looked at together
   * with more, when no more comes for a while. Not while parts are passed. `end` gets the error that ends the answer instead;
   * whatever is passed afterwards fails with it too.
   */
  whenQuiet(send: (parts: readonly ChatPart[]) => void, end: (error: unknown) => void): { cancel(): void }
  /**
   * What was found in the whole answer, for the bill's commit: by those that stood in its way, and by those that only
   * count, for which nothing has to wait.
   */
  incidents(): GuardIncident[]
}

/** The guard that looks for canaries, and what it is called when one was given away. */
export const CANARY = 'canary'
export const CANARY_LEAK = 'canary_leak'

type AnswerGuardDeps = { guards: Pick<Guards, 'scanner'>; clock: Clock }

/**
 * The guards of one answer: rules of policy and tenant, canaries, and pseudonyms on their way back, all of them while it
 * streams; and the prompt shield, which looks at it every few KB and keeps back the rest.
 */
export function guardAnswer(screened: Screened, { guards, clock }: AnswerGuardDeps): AnswerGuard {
  const { rules, pseudonyms, options, canaries, policy } = screened
  const canary = canaries && armCanaries(policy.document, canaries)
  const acting = [...rules.output.acting, ...(canary?.acts ? [canary.armed] : [])]
  const watching = [...rules.output.watching, ...(canary && !canary.acts ? [canary.armed] : [])]
  const isJson = options?.responseFormat !== undefined && options.responseFormat.type !== 'text'
  const textFormat = isJson ? 'json' : 'text'
  const pacer = createPacer()
  const guard =
    acting.length > 0 || pseudonyms
      ? createOutputGuard({ armed: acting, pseudonyms, clock, textFormat, effort: pacer })
      : undefined
  const shield = shieldAnswer(screened, guards)
  const heard =
    watching.length > 0 ? new Hearing({ armed: watching, effort: pacer }, textFormat, rules.cleanTexts) : undefined

  const quiet = guard && createQuietWatch(guard, clock, pacer)

  function pass(parts: readonly ChatPart[]): readonly ChatPart[] | Promise<readonly ChatPart[]> {
    const catchUp = quiet?.running
    if (catchUp) return catchUp.then(() => pass(parts))
    heard?.hear(parts)
    shield?.hear(parts)
    if (!heard?.isDue && !shield?.isDue) {
      if (!guard || !quiet) return parts
      if (quiet.keep(parts)) return NO_PARTS
    }
    pacer.resume()
    const work = passing(parts, { guard, heard, shield })
    return paced(quiet ? quiet.around(work) : work, pacer)
  }

  return {
    pass,
    whenQuiet: (send, end) => quiet?.start(send, end) ?? NOTHING_WAITS,
    end: () => quiet?.running?.then(() => guard?.end() ?? []) ?? guard?.end() ?? [],
    incidents() {
      const hits = [...(guard?.hits ?? []), ...(heard?.end() ?? [])]
      const incidents: GuardIncident[] = rules.output.incidentsOf(hits, 'output')
      if (canary) incidents.push(...canary.incidentsOf(hits))
      const leak = shield?.end()
      if (leak) incidents.push(leak)
      return incidents
    },
  }
}

// Generators are functions of the module or methods, never closures: V8 makes a class of its own for what each closure yields,
// and forgets what it has learned with it (measured: 25,000 instructions of a request).
function* passing(
  parts: readonly ChatPart[],
  {
    guard,
    heard,
    shield,
  }: { guard: OutputGuard | undefined; heard: Hearing | undefined; shield: AnswerShield | undefined },
): Generator<void, readonly ChatPart[]> {
  if (shield?.isDue) yield* shield.looking()
  if (heard) yield* heard.counting()
  return guard ? yield* guard.passing(parts) : parts
}

const NO_PARTS: readonly ChatPart[] = []
const NOTHING_WAITS = { cancel() {} }

/** Sees to it that nothing waits for more text longer than can be seen, when a model pauses. */
function createQuietWatch(guard: OutputGuard, clock: Clock, pacer: ResumablePacer) {
  let send: ((parts: readonly ChatPart[]) => void) | undefined
  let end: ((error: unknown) => void) | undefined
  let timer: Timer | undefined
  let isPassing = false
  let failure: { error: unknown } | undefined
  /** Settles when the guard may be used again; undefined while it may. */
  let running: Promise<void> | undefined

  function watch(): void {
    if (!send || timer) return
    const dueInMs = guard.dueInMs
    if (dueInMs !== undefined) timer = clock.after(dueInMs, catchUp)
  }

  function catchUp(): void {
    timer = undefined
    // Whoever passes parts on now asks by itself, and watches again.
    if (isPassing) return
    // Parts that have come meanwhile were asked about: what waits has not waited as long.
    if (guard.dueInMs !== 0) {
      watch()
      return
    }
    pacer.resume()
    try {
      const parts = paced(guard.catchingUp(), pacer)
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
    /** As that of OutputGuard. */
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

/** So much of an answer is looked at in one go by rules that only count. */
const COUNTED_CHARS = 8_192

/**
 * Counts what is found in the texts of an answer, each by itself: what was said, the reasoning, the arguments of each tool
 * call. Little is left to do at the end, however long the answer was.
 */
class Hearing {
  readonly #rules: Omit<ChannelRules, 'pseudonyms' | 'hits'>
  readonly #textFormat: TextFormat
  readonly #cleanTexts: CleanTexts
  readonly #hits: GuardHit[] = []
  readonly #texts = new Map<string | number, HeardText>()
  #isDue = false
  #isOver = false
  #isCounted = false

  constructor(watching: Omit<ChannelRules, 'pseudonyms' | 'hits'>, textFormat: TextFormat, cleanTexts: CleanTexts) {
    this.#rules = watching
    this.#textFormat = textFormat
    this.#cleanTexts = cleanTexts
  }

  hear(parts: readonly ChatPart[]): void {
    for (const part of parts) {
      if (part.type === 'text') this.#hear('text', this.#textFormat, part.text)
      else if (part.type === 'reasoning') this.#hear('reasoning', 'text', part.text)
      else if (part.type === 'tool_call') this.#hear(part.index, 'json', part.arguments)
      else if (part.type === 'end') this.#isDue = this.#isOver = true
    }
  }

  /** There is so much to count that it should not be put off. */
  get isDue(): boolean {
    return this.#isDue
  }

  /** Counts what is due; stops now and then. */
  *counting(): Generator<void> {
    for (const heard of this.#texts.values()) {
      for (let at = 0; heard.waiting.length - at >= COUNTED_CHARS; at += COUNTED_CHARS) {
        heard.channel ??= new Channel({ ...this.#rules, pseudonyms: undefined, hits: this.#hits }, heard.format)
        heard.channel.add(heard.waiting.slice(at, at + COUNTED_CHARS))
        yield* heard.channel.settling()
        heard.channel.take(heard.channel.ready)
      }
      heard.waiting = heard.waiting.slice(heard.waiting.length - (heard.waiting.length % COUNTED_CHARS))
    }
    this.#isDue = false
    if (!this.#isOver || this.#isCounted) return
    this.#isCounted = true
    for (const heard of this.#texts.values()) yield* this.#countingRest(heard)
  }

  /** Of all that was heard. */
  end(): readonly GuardHit[] {
    this.#isOver = true
    if (!this.#isCounted) atOnce(this.counting())
    return this.#hits
  }

  #hear(name: string | number, format: TextFormat, text: string): void {
    let heard = this.#texts.get(name)
    if (!heard) {
      heard = { format, waiting: '', channel: undefined }
      this.#texts.set(name, heard)
    }
    heard.waiting += text
    this.#isDue ||= heard.waiting.length >= COUNTED_CHARS
  }

  *#countingRest({ channel, waiting, format }: HeardText): Generator<void> {
    if (!channel) {
      const { armed, effort } = this.#rules
      this.#hits.push(...(yield* this.#cleanTexts.screening(waiting, format, armed, effort)).hits)
      return
    }
    channel.add(waiting)
    yield* channel.ending()
  }
}

type HeardText = { format: TextFormat; waiting: string; channel: Channel | undefined }

function armCanaries({ canary, mode }: PolicyDocument, canaries: readonly Canary[]) {
  const action = canary.action === 'redact' ? 'remove' : canary.action
  const acts = mode === 'enforce' && action !== 'log'
  const detector = createCanaryDetector(canaries)
  return {
    acts,
    armed: { guard: CANARY, detector, actionOf: () => (acts ? action : 'log') } satisfies ArmedDetector,
    /** One for each canary that was given away. */
    incidentsOf(hits: readonly GuardHit[]): GuardIncident[] {
      const leaked = new Set(hits.flatMap(({ guard, subject }) => (guard === CANARY && subject ? [subject] : [])))
      const facts = { kind: 'canary', direction: 'output', severity: 'critical', category: CANARY_LEAK } as const
      return [...leaked].map((canaryId) => ({ ...facts, canaryId, action, enforced: mode === 'enforce' }))
    },
  }
}
