import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createPacer, type Pacer, runInSlices } from '../../platform/pacing.ts'
import { hashing, piecesOf } from '../../platform/text/json-writer.ts'
import { type Effort, UNREAD } from './detection.ts'
import { screenInSlices } from './long-text.ts'
import { type ArmedDetector, type GuardHit, type Screened, screening } from './redaction.ts'
import type { TextFormat } from './stream/text-view.ts'

/** Variants of `screenInSlices` and `screening` that skip texts whose result is known. */
export type CleanTexts = {
  screenInSlices: typeof screenInSlices
  screening(
    raw: string,
    format: TextFormat,
    armed: readonly ArmedDetector[],
    effort?: Effort,
  ): Generator<void, Screened>
}

const TEXTS_KNOWN = 10_000
/** The minimum length of a cached text. For shorter texts, a scan is as fast as a lookup. */
const SHORTEST_KNOWN = 64
/** Longer texts are hashed in steps. */
const LONG_CHARS = 262_144

/**
 * Remembers which texts are clean, so that detectors can skip them. Each request of a conversation repeats all earlier
 * messages, and each conversation repeats its system prompt. The cache stores the SHA-256 of a text instead of the
 * text. If findings are only logged, their types and counts are remembered too, and reported each time. Texts that
 * rules change or block are not cached, because their result contains text.
 * @returns a factory of separate instances: use one for each party that must not learn about the texts of other parties
 */
export function createCleanTexts(): () => CleanTexts {
  const known = new LRUCache<string, Known>({ max: TEXTS_KNOWN })
  let made = 0

  return () => {
    const prefix = `${made++} `
    // Texts with unpaired surrogates can share a digest, so they are not cached.
    const isNamed = (raw: string): boolean => raw.length >= SHORTEST_KNOWN && raw.isWellFormed()
    const nameOf = (raw: string, format: TextFormat): string | undefined =>
      isNamed(raw) ? prefix + format + hash('sha256', raw, 'base64') : undefined
    function* namingLong(raw: string, format: TextFormat): Generator<void, string | undefined> {
      if (!isNamed(raw)) return undefined
      return prefix + format + (yield* hashing(piecesOf(raw))).digest('base64')
    }
    /** Returns the detectors that must still scan this text. */
    const leftOf = (name: string, armed: readonly ArmedDetector[]): readonly ArmedDetector[] => {
      const passed = known.get(name)?.passed
      return passed ? armed.filter(({ detector }) => !passed.includes(detector)) : armed
    }
    /** Returns the result if the same detectors and actions have only logged findings in this text. */
    const loggedIn = (name: string, raw: string, armed: readonly ArmedDetector[]): Screened | undefined => {
      const { logged } = known.get(name) ?? {}
      if (!logged || !isSame(logged.armed, armed)) return undefined
      return { text: raw, hits: logged.hits.map((hit) => ({ ...hit })), isBlocked: false }
    }
    const remember = (name: string, armed: readonly ArmedDetector[], screened: Screened): Screened => {
      const { hits } = screened
      if (hits.length === 0) known.set(name, { passed: armed.map(({ detector }) => detector) })
      else if (hits.every(isOnlyLogged)) {
        known.set(name, { passed: [], logged: { armed, hits: hits.map((hit) => ({ ...hit })) } })
      }
      return screened
    }

    return {
      *screening(raw, format, armed, effort) {
        const name = raw.length <= LONG_CHARS ? nameOf(raw, format) : yield* namingLong(raw, format)
        if (name === undefined) return yield* screening(raw, format, armed, undefined, effort)
        const logged = loggedIn(name, raw, armed)
        if (logged) return logged
        const left = leftOf(name, armed)
        if (left.length === 0) return cleanOf(raw)
        return remember(name, armed, yield* screening(raw, format, left, undefined, effort))
      },
      screenInSlices(raw, format, armed, pseudonyms, pacer) {
        // A pseudonym belongs to one request, so results that contain pseudonyms are not cached.
        if (pseudonyms) return screenInSlices(raw, format, armed, pseudonyms, pacer)
        if (raw.length <= LONG_CHARS) return screenNamed(nameOf(raw, format), raw, format, armed, pacer)
        return screenLong(raw, format, armed, pacer)
      },
    }

    async function screenLong(
      raw: string,
      format: TextFormat,
      armed: readonly ArmedDetector[],
      pacer: Pacer = createPacer(),
    ): Promise<Screened> {
      return screenNamed(await runInSlices(namingLong(raw, format), pacer), raw, format, armed, pacer)
    }

    function screenNamed(
      name: string | undefined,
      raw: string,
      format: TextFormat,
      armed: readonly ArmedDetector[],
      pacer: Pacer | undefined,
    ): Screened | Promise<Screened> {
      if (name === undefined) return screenInSlices(raw, format, armed, undefined, pacer)
      const logged = loggedIn(name, raw, armed)
      if (logged) return logged
      const left = leftOf(name, armed)
      if (left.length === 0) return cleanOf(raw)
      const screened = screenInSlices(raw, format, left, undefined, pacer)
      return screened instanceof Promise
        ? screened.then((result) => remember(name, armed, result))
        : remember(name, armed, screened)
    }
  }
}

/** `passed` are the detectors without findings in a text. `logged` are the findings of all detectors. */
type Known = {
  passed: readonly ArmedDetector['detector'][]
  logged?: { armed: readonly ArmedDetector[]; hits: readonly GuardHit[] }
}

/** A text that was not scanned to its end is scanned again. */
const isOnlyLogged = ({ action, type }: GuardHit): boolean => action === 'log' && type !== UNREAD

const isSame = (one: readonly ArmedDetector[], other: readonly ArmedDetector[]): boolean =>
  one === other || (one.length === other.length && one.every((armed, at) => armed === other[at]))

const cleanOf = (text: string): Screened => ({ text, hits: [], isBlocked: false })
