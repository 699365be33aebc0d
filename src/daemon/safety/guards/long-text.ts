import { createPacer, type Pacer, runInSlices } from '../../platform/pacing.ts'
import type { Pseudonyms } from './pseudonyms.ts'
import { type ArmedDetector, type GuardHit, type Screened, screening } from './redaction.ts'
import { Channel } from './stream/channel.ts'
import { OutputBlocked } from './stream/output-blocked.ts'
import type { TextFormat } from './stream/text-view.ts'

/** The size of one step. Even if the text consists mostly of personal data, a step takes at most 10 to 20 ms. */
const PIECE_CHARS = 8_192

/**
 * Like `screenText`, but for texts of any length. A long text is screened in steps; between two steps, the daemon does
 * other work. Counting stops as soon as the text is certain to be blocked.
 * @param pacer the pacer of the request, shared by all of its texts
 */
export function screenInSlices(
  raw: string,
  format: TextFormat,
  armed: readonly ArmedDetector[],
  pseudonyms?: Pseudonyms,
  pacer: Pacer = createPacer(),
): Screened | Promise<Screened> {
  return raw.length <= PIECE_CHARS
    ? runInSlices(screening(raw, format, armed, pseudonyms, pacer), pacer)
    : runInSlices(inPieces(raw, format, { armed, pseudonyms, effort: pacer }), pacer)
}

/**
 * Like `screenInSlices`, but also converts `marks`. Marks are ordered offsets in the text, and are converted to offsets
 * in the result.
 */
export const screenWithOffsets = async (
  raw: string,
  armed: readonly ArmedDetector[],
  marks: readonly number[],
): Promise<Screened & { marks: number[] }> =>
  runInSlices(inPieces(raw, 'text', { armed, pseudonyms: undefined }, marks), createPacer())

function* inPieces(
  raw: string,
  format: TextFormat,
  rules: Omit<ConstructorParameters<typeof Channel>[0], 'hits'>,
  marks: readonly number[] = [],
): Generator<void, Screened & { marks: number[] }> {
  const hits: GuardHit[] = []
  const channel = new Channel({ ...rules, hits }, format)
  const moved: number[] = []
  let text = ''
  let taken = 0
  const takeReady = () => {
    const ready = taken + channel.ready
    for (let mark = marks[moved.length]; mark !== undefined && mark <= ready; mark = marks[moved.length]) {
      text += channel.take(mark - taken).text
      taken = mark
      moved.push(text.length)
    }
    text += channel.take(ready - taken).text
    taken = ready
  }
  try {
    for (let at = 0; at < raw.length; at += PIECE_CHARS) {
      channel.add(raw.slice(at, at + PIECE_CHARS))
      yield* channel.settling()
      takeReady()
    }
    yield* channel.ending()
    takeReady()
  } catch (error) {
    if (!(error instanceof OutputBlocked)) throw error
    return { text: '', hits: [...error.hits], isBlocked: true, marks: [] }
  }
  return { text: text === raw ? raw : text, hits, isBlocked: false, marks: moved }
}
