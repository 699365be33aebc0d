/**
 * Returns the nesting depth of a JSON text, and an upper bound on the number of its values. Brackets and commas in
 * strings are ignored. Check both values before parsing: a parser creates an object for every pair of brackets. Its
 * memory is outside of the heap, so the heap limit does not apply. Accepts any text, even invalid JSON.
 */
export function jsonShape(source: string): { depth: number; values: number } {
  let deepest = 0
  let depth = 0
  let values = 1
  let isString = false
  // Strings are skipped with a loop: on a long string, a regular expression would overflow the stack.
  for (let at = 0; at < source.length; at++) {
    const sign = source.charCodeAt(at)
    if (sign === QUOTE) isString = !isString
    else if (isString) at += sign === BACKSLASH ? 1 : 0
    else if (sign === COMMA) values++
    else if (sign === OPEN_ARRAY || sign === OPEN_OBJECT) {
      values++
      if (++depth > deepest) deepest = depth
    } else if (sign === CLOSE_ARRAY || sign === CLOSE_OBJECT) depth--
  }
  return { depth: deepest, values }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
