/**
 * How deep arrays and objects are in each other in a JSON text, and how many values it has at most; brackets and commas in
 * strings are text. To be asked before it is parsed: a parser keeps what it is in the middle of outside of the heap, where no
 * limit holds, and makes an object of every pair of brackets. Any text has a shape, also one that is no JSON.
 */
export function jsonShape(source: string): { depth: number; values: number } {
  let deepest = 0
  let depth = 0
  let values = 1
  let isString = false
  // A pattern would overflow on a long string.
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
