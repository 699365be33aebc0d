import { JSON_DOCUMENT_DEPTH } from '../../../shared/spec-limits.ts'
import { createTextParts, plainLine } from './text-parts.ts'
import { UnreadableDocument } from './unreadable.ts'

/** What a JSON file says, a line for each value with the names that lead to it; records are paragraphs. @throws UnreadableDocument */
export function jsonText(source: string): string {
  const text = createTextParts()
  const add = (path: string, value: unknown) => {
    const words = String(value).replace(/\s+/g, ' ').trim()
    if (words !== '') text.add(`${plainLine(path === '' ? words : `${path}: ${words}`)}\n`)
  }

  function walk(value: unknown, path: string): void {
    if (Array.isArray(value)) {
      for (const item of value) {
        walk(item, path)
        if (typeof item === 'object' && item !== null) text.add('\n')
      }
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) walk(member, path === '' ? name : `${path}.${name}`)
    } else if (value !== null) add(path, value)
  }

  walk(parse(source), '')
  return text.toString()
}

/** @throws UnreadableDocument */
function parse(source: string): unknown {
  // Before it is parsed: the parser keeps what it is in the middle of outside of the heap, where no limit holds.
  if (depthOf(source) > JSON_DOCUMENT_DEPTH) {
    throw new UnreadableDocument(`The JSON is nested more than ${JSON_DOCUMENT_DEPTH} levels deep.`)
  }
  try {
    return JSON.parse(source)
  } catch (error) {
    const reason = (error as Error).message.replace(/\p{C}/gu, ' ').slice(0, 150)
    throw new UnreadableDocument(`The file is not JSON: ${reason}.`)
  }
}

/** How deep arrays and objects are in each other; brackets in strings are text. A pattern would overflow on a long string. */
function depthOf(source: string): number {
  let deepest = 0
  let depth = 0
  let isString = false
  for (let at = 0; at < source.length; at++) {
    const sign = source[at]
    if (sign === '"') isString = !isString
    else if (isString) at += sign === '\\' ? 1 : 0
    else if (sign === '[' || sign === '{') deepest = Math.max(deepest, ++depth)
    else if (sign === ']' || sign === '}') depth--
  }
  return deepest
}
