import { jsonShape } from '../json-shape.ts'
import { createTextParts, plainLine } from './text-parts.ts'
import { UnreadableDocument } from './unreadable.ts'

/** The maximum nesting of a JSON document. */
const JSON_DOCUMENT_DEPTH = 100

/**
 * Returns the text of a JSON file: one line per value, prefixed with the names on the path to the value. Records become
 * paragraphs.
 * @throws UnreadableDocument
 */
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
  if (jsonShape(source).depth > JSON_DOCUMENT_DEPTH) {
    throw new UnreadableDocument(`The JSON is nested more than ${JSON_DOCUMENT_DEPTH} levels deep.`)
  }
  try {
    return JSON.parse(source)
  } catch (error) {
    const reason = (error as Error).message.replace(/\p{C}/gu, ' ').slice(0, 150)
    throw new UnreadableDocument(`The file is not JSON: ${reason}.`)
  }
}
