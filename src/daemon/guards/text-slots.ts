import type { Content, GenerationOptions, Message, ResponseFormat, Tool } from '../providers/conversation.ts'

/** All that a request says to a model, whichever surface it came by. */
export type Spoken = {
  system: string
  messages: readonly Message[]
  options: GenerationOptions | undefined
}

/** One text of a request, as whoever looks for something in it must know it. */
export type Slot = {
  /** Who says it. `definition`: what describes tools and the form of the answer. */
  from: 'system' | 'user' | 'assistant' | 'tool' | 'definition'
  /** JSON text has values that are spelled with escapes, and stays JSON when it is changed. */
  format: 'text' | 'json'
  text: string
}

/**
 * Goes through every text of a request, in the order of the conversation, and puts in its place what `rewrite` makes of it.
 * The one place that knows where a request holds text: what guards see and what they may change are the same by
 * construction. Ids, names of tools and the caller's name of an end user are no text. What nothing is changed in is given
 * back as it is.
 */
export function mapTexts<S extends Spoken>(spoken: S, rewrite: (slot: Slot) => string): S {
  const system = mapText(spoken.system, 'system', rewrite)
  const messages = mapAll(spoken.messages, (message) => mapMessage(message, rewrite))
  const options = spoken.options && mapOptions(spoken.options, rewrite)
  const isSame = system === spoken.system && messages === spoken.messages && options === spoken.options
  return isSame ? spoken : { ...spoken, system, messages, options }
}

/** The texts that `mapTexts` goes through. */
export function slotsOf(spoken: Spoken): Slot[] {
  const slots: Slot[] = []
  mapTexts(spoken, (slot) => {
    slots.push(slot)
    return slot.text
  })
  return slots
}

type Rewrite = (slot: Slot) => string

const mapText = (text: string, from: Slot['from'], rewrite: Rewrite): string =>
  text === '' ? text : rewrite({ from, format: 'text', text })

const mapJson = (text: string, from: Slot['from'], rewrite: Rewrite): string =>
  text === '' ? text : rewrite({ from, format: 'json', text })

function mapMessage(message: Message, rewrite: Rewrite): Message {
  const content = mapContent(message.content, message.role, rewrite)
  if (message.role !== 'assistant') return content === message.content ? message : { ...message, content }
  const { toolCalls, reasoning } = message
  const newCalls =
    toolCalls &&
    mapAll(toolCalls, (call) => withValue(call, 'arguments', mapJson(call.arguments, 'assistant', rewrite)))
  const newReasoning =
    reasoning &&
    mapAll(reasoning, (step) => {
      const text = mapText(step.text, 'assistant', rewrite)
      // A signature is over the words it came with.
      return text === step.text ? step : { origin: step.origin, text }
    })
  if (content === message.content && newCalls === toolCalls && newReasoning === reasoning) return message
  return { ...message, content, toolCalls: newCalls, reasoning: newReasoning }
}

function mapContent(content: Content, from: Slot['from'], rewrite: Rewrite): Content {
  if (typeof content === 'string') return mapText(content, from, rewrite)
  return mapAll(content, (part) =>
    part.type === 'text' ? withValue(part, 'text', mapText(part.text, from, rewrite)) : part,
  )
}

function mapOptions(options: GenerationOptions, rewrite: Rewrite): GenerationOptions {
  const tools = options.tools && mapAll(options.tools, (tool) => mapTool(tool, rewrite))
  const stop = options.stop && mapAll(options.stop, (text) => mapText(text, 'definition', rewrite))
  const responseFormat = options.responseFormat && mapFormat(options.responseFormat, rewrite)
  const isSame = tools === options.tools && stop === options.stop && responseFormat === options.responseFormat
  return isSame ? options : { ...options, tools, stop, responseFormat }
}

function mapTool(tool: Tool, rewrite: Rewrite): Tool {
  const description = tool.description && mapText(tool.description, 'definition', rewrite)
  const parameters = tool.parameters && mapObject(tool.parameters, rewrite)
  const isSame = description === tool.description && parameters === tool.parameters
  return isSame ? tool : { ...tool, description, parameters }
}

function mapFormat(format: ResponseFormat, rewrite: Rewrite): ResponseFormat {
  if (format.type !== 'json_schema') return format
  const description = format.description && mapText(format.description, 'definition', rewrite)
  const schema = mapObject(format.schema, rewrite)
  const isSame = description === format.description && schema === format.schema
  return isSame ? format : { ...format, description, schema }
}

function mapObject(value: object, rewrite: Rewrite): object {
  const json = JSON.stringify(value)
  const mapped = mapJson(json, 'definition', rewrite)
  return mapped === json ? value : JSON.parse(mapped)
}

/** The list itself when nothing in it changes. */
function mapAll<T>(list: readonly T[], map: (item: T) => T): readonly T[] {
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
