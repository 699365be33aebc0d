// Finds the texts, ids and names of a request. The file is long, because a request has them in many places.
import { appendTo } from '../../../../shared/lists.ts'
import {
  type Content,
  type ContentPart,
  citedText,
  type Extra,
  type FilePart,
  type FileUrlPart,
  type GenerationOptions,
  type Message,
  type NativeBlock,
  type NativeOptions,
  type NativePart,
  type ResponseFormat,
  type System,
  type TextPart,
  type ThinkingConfig,
  type Tool,
} from '../../../models/conversation.ts'
import { ORIGIN as GOOGLE_ORIGIN } from '../../../models/part-signature.ts'
import { mapNativeBlock } from './native-texts.ts'
import { isSealed } from './sealed.ts'

/** All text of a model request, in a form that is independent of the API. */
export type PromptText = {
  system: System
  messages: Message[]
  options: GenerationOptions | undefined
}

/** One text of a request, with the context that guards need. */
export type Slot = {
  /** The author. `definition`: descriptions of tools and of the response format. */
  from: 'system' | 'user' | 'assistant' | 'tool' | 'definition'
  /** JSON text contains escaped values, and must remain valid JSON when it is changed. */
  format: 'text' | 'json'
  text: string
}

/**
 * Replaces every text of a request with the result of `rewrite`, in the order of the conversation. No other code
 * defines where a request contains text, so guards scan exactly the text that they can change. Ids and names are
 * visited by `mapNames` instead. Unchanged objects are not copied.
 */
export function mapTexts<S extends PromptText>(request: S, rewrite: (slot: Slot) => string): S {
  const system = mapSystem(request.system, rewrite)
  const messages = mapAll(request.messages, (message) => mapMessage(message, rewrite))
  const options = request.options && mapOptions(request.options, rewrite)
  const isSame = system === request.system && messages === request.messages && options === request.options
  return isSame ? request : { ...request, system, messages, options }
}

/** Returns the texts that `mapTexts` visits. */
export function slotsOf(request: PromptText): Slot[] {
  const slots: Slot[] = []
  mapTexts(request, (slot) => {
    slots.push(slot)
    return slot.text
  })
  return slots
}

/**
 * Visits adjacent texts of one message together, because a model reads them as one text. `rewrite` must return one
 * replacement for each text. Empty results are removed from the message.
 */
export function mapAdjacentTexts<S extends PromptText>(
  request: S,
  rewrite: (texts: readonly string[]) => readonly string[],
): S {
  const system = mapSystemRuns(request.system, rewrite)
  const messages = mapAll(request.messages, (message) => {
    const { content } = message
    return typeof content === 'string' || content.length < 2
      ? message
      : withValue(message, 'content', mapRuns(content, rewrite))
  })
  return system === request.system && messages === request.messages ? request : { ...request, system, messages }
}

const mapSystemRuns = (system: System, rewrite: (texts: readonly string[]) => readonly string[]): System =>
  typeof system === 'string' || system.length < 2 ? system : (mapRuns(system, rewrite) as readonly TextPart[])

function mapRuns(
  parts: readonly ContentPart[],
  rewrite: (texts: readonly string[]) => readonly string[],
): readonly ContentPart[] {
  const mapped: ContentPart[] = []
  let isSame = true
  for (let from = 0; from < parts.length; ) {
    const texts: string[] = []
    for (let text = textIn(parts[from]); text !== undefined; text = textIn(parts[from + texts.length])) texts.push(text)
    const run = parts.slice(from, from + Math.max(1, texts.length))
    from += run.length
    const rewritten = texts.length < 2 ? texts : rewrite(texts)
    if (rewritten.every((text, at) => text === texts[at])) appendTo(mapped, run)
    else {
      isSame = false
      appendTo(mapped, withTexts(run, rewritten))
    }
  }
  return isSame ? parts : mapped
}

/** Returns the text of a part that the model reads as text, with or without citations. */
const textIn = (part: ContentPart | undefined): string | undefined =>
  part?.type === 'text' ? part.text : part?.type === 'native' ? citedText(part)?.text : undefined

const withText = (part: ContentPart, text: string): ContentPart =>
  part.type === 'native' ? { ...part, block: { ...part.block, text } } : ({ ...part, text } as TextPart)

/** Replaces the texts of the parts. Removes empty parts; the previous part then takes over their cache breakpoint. */
function withTexts(parts: readonly ContentPart[], texts: readonly string[]): ContentPart[] {
  const kept: ContentPart[] = []
  for (const [at, part] of parts.entries()) {
    const text = texts[at] ?? ''
    if (text !== '') kept.push(withText(part, text))
    else if (part.cache) kept.push({ ...(kept.pop() ?? { type: 'text', text: '…' }), cache: part.cache })
  }
  return kept
}

/**
 * An id or name in a request. `of` is its owner: a tool call, the definition of a tool or response format, or the end
 * user.
 */
export type Name = { of: 'call' | 'definition' | 'user'; text: string }

/**
 * Replaces every id and name of a request with the result of `rewrite`. An empty end user name is removed from the
 * request.
 */
export function mapNames<S extends PromptText>(request: S, rewrite: (name: Name) => string): S {
  const id = (text: string) => rewrite({ of: 'call', text })
  const name = (text: string) => rewrite({ of: 'definition', text })
  const messages = mapAll(request.messages, (message) => {
    if (message.role === 'tool') return withValue(message, 'toolCallId', id(message.toolCallId))
    if (message.role !== 'assistant' || !message.toolCalls) return message
    const toolCalls = mapAll(message.toolCalls, (call) =>
      withValue(withValue(call, 'id', id(call.id)), 'name', name(call.name)),
    )
    return withValue(message, 'toolCalls', toolCalls)
  })
  const options = request.options && mapOptionNames(request.options, name, rewrite)
  const isSame = messages === request.messages && options === request.options
  return isSame ? request : { ...request, messages, options }
}

function mapOptionNames(
  options: GenerationOptions,
  nameOf: (text: string) => string,
  rewrite: (name: Name) => string,
): GenerationOptions {
  const { tools, toolChoice, responseFormat, user, native } = options
  const named = <T extends { name: string }>(one: T): T => withValue(one, 'name', nameOf(one.name))
  const changed = {
    tools: tools && mapAll(tools, named),
    toolChoice: typeof toolChoice === 'object' ? named(toolChoice) : toolChoice,
    responseFormat: responseFormat?.type === 'json_schema' ? named(responseFormat) : responseFormat,
    user: user && (rewrite({ of: 'user', text: user }) || undefined),
    native: native && mapIdentifier(native, rewrite),
  }
  const isSame =
    changed.tools === tools &&
    changed.toolChoice === toolChoice &&
    changed.responseFormat === responseFormat &&
    changed.user === user &&
    changed.native === native
  return isSame ? options : { ...options, ...changed }
}

/** OpenAI's `safety_identifier` is a newer form of the end user's name. */
function mapIdentifier(native: NativeOptions, rewrite: (name: Name) => string): NativeOptions {
  const { safety_identifier: text, ...fields } = native.fields
  if (typeof text !== 'string' || text === '') return native
  const changed = rewrite({ of: 'user', text })
  if (changed === text) return native
  return { ...native, fields: changed === '' ? fields : { ...fields, safety_identifier: changed } }
}

type Rewrite = (slot: Slot) => string

const mapSystem = (system: System, rewrite: Rewrite): System =>
  typeof system === 'string'
    ? mapText(system, 'system', rewrite)
    : mapAll(system, (part) => withValue(part, 'text', mapText(part.text, 'system', rewrite)))

const mapText = (text: string, from: Slot['from'], rewrite: Rewrite): string =>
  text === '' ? text : rewrite({ from, format: 'text', text })

const mapJson = (text: string, from: Slot['from'], rewrite: Rewrite): string =>
  text === '' ? text : rewrite({ from, format: 'json', text })

function mapMessage(message: Message, rewrite: Rewrite): Message {
  const speaker = message.role === 'tool' ? undefined : message.name
  // Providers allow few characters in a name, so a name that would change is removed.
  const isNameSame = !speaker || mapText(speaker, message.role, rewrite) === speaker
  const content =
    message.role === 'tool' && message.isObject
      ? mapObjectResult(message.content, rewrite)
      : mapContent(message.content, message.role, rewrite)
  if (message.role === 'tool') return content === message.content ? message : { ...message, content }
  if (message.role === 'user') {
    if (!isNameSame) return { role: message.role, content }
    return content === message.content ? message : { ...message, content }
  }
  const { toolCalls, reasoning } = message
  const newCalls =
    toolCalls &&
    mapAll(toolCalls, (call) => withValue(call, 'arguments', mapJson(call.arguments, 'assistant', rewrite)))
  const newReasoning =
    reasoning &&
    mapAll(reasoning, (step) => {
      const text = mapText(step.text, 'assistant', rewrite)
      // Clients may send any text as sealed data.
      const open = [step.signature, step.data].filter((one) => one !== undefined && !isSealed(one)) as string[]
      const isSame = mapAll(open, (one) => mapText(one, 'assistant', rewrite)) === open
      // If a text is changed, its signature is removed, because the signature is valid only for the original text.
      return text === step.text && isSame ? step : { origin: step.origin, text }
    })
  if (isNameSame && content === message.content && newCalls === toolCalls && newReasoning === reasoning) return message
  const changed = { ...message, content, toolCalls: newCalls, reasoning: newReasoning }
  return isNameSame ? changed : { ...changed, name: undefined }
}

/** A tool result that is an object begins with its JSON. Files may follow it. */
function mapObjectResult(content: Content, rewrite: Rewrite): Content {
  if (typeof content === 'string') return mapJson(content, 'tool', rewrite)
  const [first] = content
  if (first?.type !== 'text') return mapContent(content, 'tool', rewrite)
  const json = withValue(first, 'text', mapJson(first.text, 'tool', rewrite))
  const files = content.slice(1)
  const mapped = mapContent(files, 'tool', rewrite) as readonly ContentPart[]
  return json === first && mapped === files ? content : [json, ...mapped]
}

function mapContent(content: Content, from: Slot['from'], rewrite: Rewrite): Content {
  if (typeof content === 'string') return mapText(content, from, rewrite)
  return mapAll(content, (part): ContentPart => {
    switch (part.type) {
      case 'text':
        return withValue(mapExtra(part, from, rewrite), 'text', mapText(part.text, from, rewrite))
      case 'image_url':
        return withValue(mapExtra(part, from, rewrite), 'url', mapText(part.url, from, rewrite))
      case 'file_url':
        return mapFileName(withValue(part, 'url', mapText(part.url, from, rewrite)), from, rewrite)
      case 'file':
        return withFileText(mapFileName(part, from, rewrite), from, rewrite)
      case 'native': {
        const map = part.origin === GOOGLE_ORIGIN ? mapGoogleBlock : mapBlock
        const block = map(part.block, from, rewrite)
        return withFileText(withValue(part, 'block', block), from, rewrite)
      }
      case 'image':
        return mapExtra(part, from, rewrite)
      default:
        return part satisfies never
    }
  })
}

const mapBlock = (block: NativeBlock, from: Slot['from'], rewrite: Rewrite): NativeBlock =>
  mapNativeBlock(block, {
    text: (text) => mapText(text, from, rewrite),
    json: (value) => mapObject(value, rewrite, from),
  })

/** A part of Gemini's API is free JSON, except for inline data and the signature of the part. */
function mapGoogleBlock(block: NativeBlock, from: Slot['from'], rewrite: Rewrite): NativeBlock {
  const { type, source, thoughtSignature, ...members } = block
  const closed = { type, source, thoughtSignature }
  const mapped = mapBlock(closed, from, rewrite)
  const free = Object.keys(members).length === 0 ? members : mapObject(members, rewrite, from)
  return mapped === closed && free === members ? block : { ...mapped, ...free }
}

/** A file cannot be changed, so its text takes its place if a rule changes the text. */
function withFileText(part: FilePart | NativePart, from: Slot['from'], rewrite: Rewrite): ContentPart {
  if (part.text === undefined) return part
  const text = mapText(part.text, from, rewrite)
  return text === part.text ? part : { type: 'text', text, ...(part.cache && { cache: part.cache }) }
}

const mapFileName = <Part extends FilePart | FileUrlPart>(part: Part, from: Slot['from'], rewrite: Rewrite): Part =>
  part.name === undefined ? part : withValue(part, 'name', mapText(part.name, from, rewrite) as Part['name'])

function mapExtra<T extends { extra?: Extra | undefined }>(part: T, from: Slot['from'], rewrite: Rewrite): T {
  const { extra } = part
  if (!extra) return part
  const members = mapObject(extra.members, rewrite, from) as Extra['members']
  return members === extra.members ? part : { ...part, extra: { ...extra, members } }
}

function mapOptions(options: GenerationOptions, rewrite: Rewrite): GenerationOptions {
  const tools = options.tools && mapAll(options.tools, (tool) => mapTool(tool, rewrite))
  const stop = options.stop && mapAll(options.stop, (text) => mapText(text, 'definition', rewrite))
  const responseFormat = options.responseFormat && mapFormat(options.responseFormat, rewrite)
  const native = options.native && mapNative(options.native, rewrite)
  const isSame =
    tools === options.tools &&
    stop === options.stop &&
    responseFormat === options.responseFormat &&
    native === options.native
  return isSame ? options : { ...options, tools, stop, responseFormat, native }
}

function mapNative(native: NativeOptions, rewrite: Rewrite): NativeOptions {
  const { fields, thinking } = native
  const config = thinking?.config
  const mapped =
    Object.keys(fields).length === 0
      ? native
      : withValue(native, 'fields', mapObject(fields, rewrite) as NativeOptions['fields'])
  if (!config) return mapped
  const newConfig = mapObject(config, rewrite) as ThinkingConfig
  return withValue(mapped, 'thinking', withValue(thinking, 'config', newConfig))
}

function mapTool(tool: Tool, rewrite: Rewrite): Tool {
  const description = tool.description && mapText(tool.description, 'definition', rewrite)
  const parameters = tool.parameters && mapObject(tool.parameters, rewrite)
  const native = tool.native && mapNativeTool(tool.native, rewrite)
  const format = tool.custom?.format
  const custom = format && withValue(tool.custom ?? {}, 'format', mapObject(format, rewrite) as NativeBlock)
  const extra =
    tool.extra && withValue(tool.extra, 'members', mapObject(tool.extra.members, rewrite) as Record<string, unknown>)
  const isSame =
    description === tool.description &&
    parameters === tool.parameters &&
    native === tool.native &&
    (custom ?? tool.custom) === tool.custom &&
    extra === tool.extra
  return isSame ? tool : { ...tool, description, parameters, custom: custom ?? tool.custom, native, extra }
}

const mapNativeTool = (native: NonNullable<Tool['native']>, rewrite: Rewrite): Tool['native'] =>
  withValue(native, 'definition', mapObject(native.definition, rewrite) as NativeBlock)

function mapFormat(format: ResponseFormat, rewrite: Rewrite): ResponseFormat {
  if (format.type !== 'json_schema') return format
  const description = format.description && mapText(format.description, 'definition', rewrite)
  const schema = mapObject(format.schema, rewrite)
  const isSame = description === format.description && schema === format.schema
  return isSame ? format : { ...format, description, schema }
}

function mapObject(value: object, rewrite: Rewrite, from: Slot['from'] = 'definition'): object {
  const json = JSON.stringify(value)
  const mapped = mapJson(json, from, rewrite)
  return mapped === json ? value : JSON.parse(mapped)
}

/** If no item changes, returns the same list, not a copy. */
function mapAll<T, List extends readonly T[]>(list: List & readonly T[], map: (item: T) => T): List | T[] {
  let changed: T[] | undefined
  for (const [at, item] of list.entries()) {
    const mapped = map(item)
    if (mapped !== item) {
      changed ??= [...list]
      changed[at] = mapped
    }
  }
  return changed ?? list
}

const withValue = <T extends object, K extends keyof T>(object: T, key: K, value: T[K]): T =>
  object[key] === value ? object : { ...object, [key]: value }
