import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Effort } from './detection.ts'
import { screenPaced } from './paced.ts'
import { type ArmedDetector, type Screened, screening } from './redaction.ts'
import type { TextFormat } from './stream/text-view.ts'

/** As the functions they are named for, but for texts that are known to be clean. */
export type CleanTexts = {
  screenPaced: typeof screenPaced
  screening(
    raw: string,
    format: TextFormat,
    armed: readonly ArmedDetector[],
    effort?: Effort,
  ): Generator<void, Screened>
}

const TEXTS_KNOWN = 10_000
/** To look at a shorter one takes no longer than to look it up. */
const SHORTEST_KNOWN = 64

/**
 * Spares detectors to read a text again in which they have found nothing: each turn of a conversation comes with all those
 * before it, answers included, and each conversation with the same system prompt. What is kept of a text is its SHA-256,
 * and nothing of one in which something was found: that is found, and reported, each time.
 * @returns what to make one with for each who must not be able to tell what the others have said
 */
export function createCleanTexts(): () => CleanTexts {
  const known = new LRUCache<string, readonly ArmedDetector['detector'][]>({ max: TEXTS_KNOWN })
  let made = 0

  return () => {
    const prefix = `${made++} `
    // Several texts with half of a surrogate pair have one digest.
    const nameOf = (raw: string, format: TextFormat): string | undefined =>
      raw.length < SHORTEST_KNOWN || !raw.isWellFormed() ? undefined : prefix + format + hash('sha256', raw, 'base64')
    /** Those that have not passed this text. */
    const leftOf = (name: string, armed: readonly ArmedDetector[]): readonly ArmedDetector[] => {
      const passed = known.get(name)
      return passed ? armed.filter(({ detector }) => !passed.includes(detector)) : armed
    }
    const remember = (name: string, armed: readonly ArmedDetector[], screened: Screened): Screened => {
      if (screened.hits.length === 0) {
        known.set(
          name,
          armed.map(({ detector }) => detector),
        )
      }
      return screened
    }

    return {
      *screening(raw, format, armed, effort) {
        const name = nameOf(raw, format)
        if (name === undefined) return yield* screening(raw, format, armed, undefined, effort)
        const left = leftOf(name, armed)
        if (left.length === 0) return cleanOf(raw)
        return remember(name, armed, yield* screening(raw, format, left, undefined, effort))
      },
      screenPaced(raw, format, armed, pseudonyms, pacer) {
        // Pseudonyms are of one request, and so is what becomes of a text with them.
        const name = pseudonyms ? undefined : nameOf(raw, format)
        if (name === undefined) return screenPaced(raw, format, armed, pseudonyms, pacer)
        const left = leftOf(name, armed)
        if (left.length === 0) return cleanOf(raw)
        const screened = screenPaced(raw, format, left, undefined, pacer)
        return screened instanceof Promise
          ? screened.then((result) => remember(name, armed, result))
          : remember(name, armed, screened)
      },
    }
  }
}

const cleanOf = (text: string): Screened => ({ text, hits: [], isBlocked: false })
