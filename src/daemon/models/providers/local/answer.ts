import { SOURCES_RETURNED } from '../../../../shared/spec-limits.ts'
import { questionOf } from '../../../platform/text/question.ts'
import { textOf } from '../../conversation.ts'
import type { GroundingPassage, ProviderCall } from '../../provider.ts'
import { bestStatements, type Quotation } from './best-statements.ts'
import type { Statement } from './statements.ts'

/** Returns the whole answer to a call. It is deterministic. */
export function answerTo({ grounding, messages }: Pick<ProviderCall, 'grounding' | 'messages'>): string {
  if (grounding === null) return WITHOUT_INDEX
  const said = messages.filter(({ role }) => role === 'user').map(({ content }) => textOf(content))
  const passages = ofReturnedSources(grounding.passages)
  const alone = bestStatements(said.at(-1) ?? '', passages)
  const { inContext } = questionOf(said)
  // If a follow-up question such as "And on Windows?" finds nothing by itself, its context is added to the search.
  const quotations = alone.length > 0 || inContext === undefined ? alone : bestStatements(inContext, passages)
  return quotations.length > 0 ? quote(grounding.index, quotations) : nothingFound(grounding.index, passages)
}

const WITHOUT_INDEX =
  'I am `local/extract`, the model that is built into this gateway. I answer by quoting documents, but this ' +
  'request retrieves none.\n\n' +
  'I can find the passages of an index that answer a question and quote them with their sources, without any network. ' +
  'I cannot answer from general knowledge, write or translate.\n\n' +
  'To get an answer, send the name of an index as `index`, or choose a model of another provider.'

/** Keeps only passages whose document the response lists as a source. */
function ofReturnedSources(passages: readonly GroundingPassage[]): GroundingPassage[] {
  const sources = new Set([...new Set(passages.map(({ source }) => source))].slice(0, SOURCES_RETURNED))
  return passages.filter(({ source }) => sources.has(source))
}

function quote(index: string, quotations: readonly Quotation[]): string {
  const paragraphs = quotations.map(({ passage, statements }) => quoteOf(passage, statements))
  const passages = quotations.map(({ passage }) => passage).sort((one, other) => one.number - other.number)
  return [`The index "${index}" says:`, ...paragraphs, `Sources:\n${sourceLines(passages)}`].join('\n\n')
}

/**
 * Consecutive sentences of one passage share one pair of quotation marks. Each list item and each code block stays on
 * its own lines.
 */
function quoteOf({ number }: GroundingPassage, statements: Quotation['statements']): string {
  const quoted = (text: string) => `"${text}" [${number}]`
  const blocks: string[] = []
  for (let at = 0; at < statements.length; ) {
    const { kind } = statements[at] as Statement
    let end = at + 1
    while (statements[end]?.kind === kind) end++
    const group = statements.slice(at, end)
    const texts = group.map(({ text }) => text)
    if (kind === 'code') blocks.push(...texts.map(fenced))
    else if (kind === 'item')
      blocks.push(texts.map((text) => (texts.length > 1 ? `- ${quoted(text)}` : quoted(text))).join('\n'))
    else blocks.push(quoted(joined(group)))
    at = end
  }
  return blocks.join('\n\n')
}

/** Joins sentences and marks the omissions between them. */
function joined(sentences: readonly Statement[]): string {
  let text = ''
  let last: number | undefined
  for (const sentence of sentences) {
    if (last !== undefined) text += sentence.position === last + 1 ? ' ' : ' … '
    text += sentence.text
    last = sentence.position
  }
  return text
}

function fenced(code: string): string {
  let fence = '```'
  while (code.includes(fence)) fence += '`'
  return `${fence}\n${code}\n${fence}`
}

function nothingFound(index: string, passages: readonly GroundingPassage[]): string {
  const plain = `The index "${index}" contains no answer to this question.`
  if (passages.length === 0) return plain
  return `${plain} The closest passages are in:\n\n${sourceLines(passages.slice(0, 3))}`
}

/** Returns one line per section. Each line contains the numbers of the section's passages. */
function sourceLines(passages: readonly GroundingPassage[]): string {
  const numbers = new Map<string, string>()
  for (const { number, source, headings } of passages) {
    const section = [source, headings?.split(' > ').at(-1)].filter(Boolean).join(', ')
    numbers.set(section, `${numbers.get(section) ?? ''}[${number}]`)
  }
  return [...numbers].map(([section, ofSection]) => `${ofSection} ${section}`).join('\n')
}
