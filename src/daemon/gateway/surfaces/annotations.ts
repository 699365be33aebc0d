// The sources of a text, in the form of each interface. Providers send them in the form of OpenAI's Responses API.
import type { ToolCall } from '../../models/conversation.ts'
import { type Json, parseObject } from '../../platform/text/json.ts'
import { type TypedObject, toTypedObject } from '../chat/native-parts.ts'

/** A source of a text, such as `{type: "url_citation", url, title, start_index, end_index}`. */
export type Annotation = TypedObject

/** Returns the annotations of a text of a whole answer. @throws ProviderError */
export const toAnnotations = (collected: readonly ToolCall[]): Annotation[] =>
  collected.map(({ arguments: json }) => toTypedObject(parseObject(json)))

/** In chat completions, the members of an annotation are in an object that has the name of its type. */
export const toChatAnnotation = ({ type, ...members }: Annotation): Annotation => ({ type, [type]: members })

/**
 * Returns the citation of a web page in Anthropic's form. Undefined for other annotations, which that API does not have.
 * `encrypted_index` is empty, because only Anthropic's own search has one.
 */
export function toWebCitation(annotation: Annotation, text: string): TypedObject | undefined {
  const page = toPage(annotation)
  if (!page) return undefined
  const { url, title, from, to } = page
  return {
    type: 'web_search_result_location',
    cited_text: text.slice(from, to),
    encrypted_index: '',
    title: title ?? null,
    url,
  }
}

/** Whether a citation was converted by `toWebCitation`. Anthropic rejects it, because it has no index. */
export const isConverted = ({ type, encrypted_index: index }: Json): boolean =>
  type === 'web_search_result_location' && index === ''

/** Returns the web pages of an answer in Gemini's form. Undefined if there are none. */
export function toGroundingMetadata(annotations: readonly Annotation[], text: string): Json | undefined {
  const pages = annotations.flatMap((annotation) => toPage(annotation) ?? [])
  if (pages.length === 0) return undefined
  const urls = [...new Set(pages.map(({ url }) => url))]
  return {
    groundingChunks: urls.map((uri) => ({ web: { uri, title: pages.find(({ url }) => url === uri)?.title ?? uri } })),
    groundingSupports: pages
      .filter(({ from, to }) => from < to)
      .map(({ url, from, to }) => ({
        // This API counts bytes.
        segment: { startIndex: bytesOf(text, 0, from), endIndex: bytesOf(text, 0, to), text: text.slice(from, to) },
        groundingChunkIndices: [urls.indexOf(url)],
      })),
  }
}

const bytesOf = (text: string, from: number, to: number): number => Buffer.byteLength(text.slice(from, to))

type Page = { url: string; title: string | undefined; from: number; to: number }

function toPage({ type, url, title, start_index: start, end_index: end }: Annotation): Page | undefined {
  if (type !== 'url_citation' || typeof url !== 'string') return undefined
  const [from, to] = [start, end].map((index) => (typeof index === 'number' ? index : 0))
  return { url, title: typeof title === 'string' ? title : undefined, from: from ?? 0, to: to ?? 0 }
}
