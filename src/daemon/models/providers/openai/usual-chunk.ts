import type { Json } from '../../json.ts'

/**
 * Reads the chunks that are the same as one before but for their text, which nearly all chunks of a stream are. What is
 * around the text has been parsed once, and means the same again; so the text is all that there is to parse (measured: a
 * tenth of all instructions of a chunk).
 */
export type UsualChunks = {
  /** The text of a chunk (its JSON) that differs in nothing else from the one that was learned; undefined for any other. */
  textOf(chunk: string): string | undefined
  /** Takes a chunk as the usual one. @param text its `delta.content`, and all that it says */
  learn(chunk: string, text: string): void
}

/** A server that changes something else in each chunk would let us learn in vain. */
const LESSONS = 8

export function createUsualChunks(): UsualChunks {
  let before = ''
  let after = ''
  let lessonsLeft = LESSONS

  return {
    textOf(chunk) {
      const end = chunk.length - after.length
      // Parts are compared, because V8 makes a loop over characters of an optimised `startsWith` (measured: ten times the work).
      if (before === '' || chunk.slice(0, before.length) !== before || chunk.slice(end) !== after) return undefined
      return parseText(chunk.slice(before.length, end))
    },
    learn(chunk, text) {
      const start = lessonsLeft > 0 ? startOf(chunk, text) : undefined
      if (start === undefined) return
      lessonsLeft -= 1
      // Copies, for a part of a text holds all of it: what one read of the network has brought.
      before = copyOf(chunk.slice(0, start))
      after = copyOf(chunk.slice(start + text.length + 2))
    },
  }
}

/** A JSON text that is a string, and not an empty one. */
function parseText(json: string): string | undefined {
  try {
    const text: unknown = JSON.parse(json)
    return typeof text === 'string' && text !== '' ? text : undefined
  } catch {
    // Where the text ends, something else begins that the usual chunk does not have.
    return undefined
  }
}

const copyOf = (text: string) => Buffer.from(text).toString()

/**
 * Where the text begins in the JSON of its chunk; undefined when that cannot be told for sure. Without a backslash nothing is
 * spelled in two ways, so a name that is found once is the one of the delta.
 */
function startOf(chunk: string, text: string): number | undefined {
  if (chunk.includes('\\')) return undefined
  const [name, ...others] = chunk.matchAll(/"content"(\s*:\s*)?/g)
  if (name?.[1] === undefined || others.length > 0) return undefined
  const start = name.index + name[0].length
  return chunk.startsWith(`"${text}"`, start) ? start : undefined
}

/** Whether a delta says nothing but its text. */
export const isNothingButText = (delta: Json): boolean =>
  Object.entries(delta).every(
    ([name, value]) => name === 'content' || name === 'role' || value === null || value === '',
  )
