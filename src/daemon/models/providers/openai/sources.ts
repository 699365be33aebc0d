// Reads the sources of an answer. Servers that search the web send them in several forms.
import { isObject, type Json } from '../../../platform/text/json.ts'
import type { ChatPart } from '../../provider.ts'

/** Counts the annotations of an answer. */
type Seen = { annotations: number }

/**
 * Adds the annotations of a delta or a message. Their members are in an object that has the name of their type. Other
 * values describe no source, and are not part of the answer.
 */
export function addAnnotations(annotations: unknown, parts: ChatPart[], seen: Seen): void {
  if (!Array.isArray(annotations)) return
  for (const annotation of annotations) {
    if (!isObject(annotation) || typeof annotation.type !== 'string') continue
    const { type, [type]: members, ...others } = annotation
    addAnnotation({ ...(isObject(members) ? members : others), type }, parts, seen)
  }
}

/**
 * Adds the lists of pages that Perplexity and xAI send beside the message. They have no positions in the text. Does
 * nothing if the answer has annotations.
 */
export function addSources({ search_results: results, citations }: Json, parts: ChatPart[], seen: Seen): void {
  if (seen.annotations > 0) return
  const listed = [results, citations].find((list): list is unknown[] => Array.isArray(list) && list.length > 0)
  for (const page of listed ?? []) {
    const { url, title } = isObject(page) ? page : { url: page, title: undefined }
    if (typeof url !== 'string') continue
    const named = typeof title === 'string' ? title : url
    addAnnotation({ type: 'url_citation', url, title: named, start_index: 0, end_index: 0 }, parts, seen)
  }
}

function addAnnotation(annotation: Json, parts: ChatPart[], seen: Seen): void {
  seen.annotations += 1
  const json = JSON.stringify(annotation)
  parts.push({ type: 'tool_call', index: -seen.annotations, id: '', name: '', native: 'annotation', arguments: json })
}
