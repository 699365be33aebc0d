import { type InputItem, ResponsesRequest } from '../../../../shared/wire/responses.ts'
import { isHostedItem, isMessage } from './items.ts'
import { isHosted, isNamespace } from './tools.ts'

const MEMBERS = new Set(Object.keys(ResponsesRequest.shape))
const ITEM_MEMBERS = new Set(
  ['type', 'id', 'status', 'role', 'content', 'phase', 'call_id', 'name', 'namespace', 'arguments', 'output'].concat([
    'input',
    'summary',
    'encrypted_content',
  ]),
)
const PART_MEMBERS = new Set(
  ['type', 'text', 'annotations', 'logprobs', 'refusal', 'image_url', 'detail'].concat([
    ...['file_id', 'file_data', 'file_url', 'filename'],
  ]),
)
const TOOL_MEMBERS = new Set(['type', 'name', 'description', 'parameters', 'strict', 'format', 'tools'])
const INCLUDED = new Set(['reasoning.encrypted_content', 'message.output_text.logprobs'])

/**
 * Returns the members of a request that only this API has, by their names. Members of `text` and `reasoning` have names
 * such as `text.verbosity`.
 */
export function nativeMembers(request: ResponsesRequest): Record<string, unknown> {
  const { truncation, include = [] } = request
  const text: Record<string, unknown> = request.text ?? {}
  const reasoning: Record<string, unknown> = request.reasoning ?? {}
  const named = [
    ...unknownIn(request, MEMBERS).map((name) => [name, request[name]]),
    ...unknownIn(text, TEXT).map((name) => [`text.${name}`, text[name]]),
    ...unknownIn(reasoning, REASONING).map((name) => [`reasoning.${name}`, reasoning[name]]),
  ]
  for (const name of include) if (!INCLUDED.has(name)) named.push([`include[${shown(name)}]`, name])
  if (truncation === 'auto') named.push(['truncation', truncation])
  return Object.fromEntries(named)
}

const TEXT = new Set(['format'])
const REASONING = new Set(['effort'])

/**
 * Lists the members of a request that have no effect with any provider. The answer contains this list, so that no member
 * is lost silently.
 */
export function droppedFrom(request: ResponsesRequest, isStored: boolean): string[] {
  const { store, tools = [], input } = request
  const dropped = new Set<string>()
  if (store && !isStored) dropped.add('store')
  if (request.stream_options?.include_obfuscation) dropped.add('stream_options.include_obfuscation')
  for (const tool of tools) addTool(tool, dropped)
  if (typeof input !== 'string') for (const item of input) addItem(item, dropped)
  return [...dropped]
}

const SHOWN_CHARS = 100
const shown = (name: string): string => name.slice(0, SHOWN_CHARS)

/** Returns the names of the members that are set and not known. */
const unknownIn = (value: object, known: ReadonlySet<string>): string[] =>
  Object.entries(value).flatMap(([name, member]) =>
    known.has(name) || member === null || member === undefined ? [] : name,
  )

function addTool(tool: NonNullable<ResponsesRequest['tools']>[number], dropped: Set<string>): void {
  if (isNamespace(tool)) for (const one of tool.tools) addTool(one, dropped)
  if (isHosted(tool)) return
  for (const name of unknownIn(tool, TOOL_MEMBERS)) dropped.add(`tools[].${shown(name)}`)
}

function addItem(item: InputItem, dropped: Set<string>): void {
  if (isHostedItem(item)) return
  for (const name of unknownIn(item, ITEM_MEMBERS)) dropped.add(`input[].${shown(name)}`)
  for (const part of partsOf(item)) {
    for (const name of unknownIn(part, PART_MEMBERS)) dropped.add(`input[].content[].${shown(name)}`)
  }
}

/** The parts that the schema has checked. Members of the same name at other items may contain anything. */
function partsOf(item: InputItem) {
  if (isMessage(item)) return typeof item.content === 'string' ? [] : item.content
  if (item.type !== 'function_call_output' && item.type !== 'custom_tool_call_output') return []
  return typeof item.output === 'string' ? [] : item.output
}
