// What only OpenAI's chat completions have, and what of a request has no effect.
import type { Dropped } from '../../../../shared/wire/chat.ts'
import { type OpenAiChatRequest, otherMembers } from '../../../../shared/wire/openai.ts'
import { type NativeOptions, OPENAI_ORIGIN, SPOKEN_ANSWER } from '../../../models/conversation.ts'
import type { PolicyUses } from '../../../safety/policies/policies.ts'

/** Members that let the provider run a tool, such as a web search. Servers with this API have different names for them. */
const SERVER_TOOLS: ReadonlySet<string> = new Set([
  'web_search_options',
  'search_parameters',
  'search_settings',
  'enable_search',
  'compound_custom',
  'data_sources',
  'plugins',
  'mcp_servers',
])

/** Collects what a policy may forbid, and what some providers or the gateway do not support. */
export class Marks {
  #names: Set<string> | undefined
  #dropped: Set<string> | undefined
  #addresses = false
  #serverTools: string[] | undefined
  #optionalTools: string[] | undefined
  #required: Set<string> | undefined

  /** Adds a part of the conversation that only providers with this API support. */
  add(name: string): void {
    this.#names ??= new Set()
    this.#names.add(name)
  }

  /** Adds the members of an object that are set, not listed in `known`, and therefore have no effect. */
  addUnknown(where: string, value: object, known: ReadonlySet<string>): void {
    for (const name of Object.keys(value)) {
      if (known.has(name)) continue
      const member = (value as Record<string, unknown>)[name]
      if (member !== undefined && member !== null) this.drop(`${where}.${name.slice(0, SHOWN_CHARS)}`)
    }
  }

  /** Adds a field that has no effect. */
  drop(field: string): void {
    this.#dropped ??= new Set()
    this.#dropped.add(field)
  }

  addAddress(): void {
    this.#addresses = true
  }

  /** Adds a feature without which the answer would be wrong. Providers without it reject the request. */
  addRequired(name: string): void {
    this.#required ??= new Set()
    this.#required.add(name)
  }

  /** Adds a tool that the provider runs. */
  addServerTool(name: string): void {
    this.#serverTools ??= []
    this.#serverTools.push(name)
  }

  /** Adds a tool that is left out if the policy forbids it. @param name as the answer reports it */
  addOptionalTool(name: string): void {
    this.#optionalTools ??= []
    this.#optionalTools.push(name)
  }

  /** Returns what a policy may forbid. Undefined: nothing. */
  uses(native: NativeOptions | undefined): PolicyUses | undefined {
    const serverTools = [...(this.#serverTools ?? []), ...serverToolsIn(native?.fields ?? {})]
    const optionalTools = this.#optionalTools
    if (!this.#addresses && serverTools.length === 0 && !optionalTools) return undefined
    return { addresses: this.#addresses, serverTools, ...(optionalTools && { optionalTools }) }
  }

  get names(): readonly string[] {
    return this.#names ? [...this.#names] : NONE
  }

  get required(): readonly string[] {
    return this.#required ? [...this.#required] : NONE
  }

  get dropped(): readonly Dropped[] {
    return this.#dropped ? [...this.#dropped].map((field): Dropped => ({ field, why: 'gateway' })) : NONE
  }
}

const NONE: readonly never[] = []

/** Returns the names of the members that let the provider run a tool. */
export function serverToolsIn(fields: NativeOptions['fields']): string[] {
  return Object.entries(fields).flatMap(([name, value]) => (SERVER_TOOLS.has(name) && isOn(value) ? name : []))
}

const isOn = (value: unknown): boolean => (Array.isArray(value) ? value.length > 0 : Boolean(value))

/** Names are chosen by the client, and the answer repeats them. */
const SHOWN_CHARS = 100

/** Returns the native options of a request. Undefined if it has none. */
export function toNative(
  request: OpenAiChatRequest,
  { names, required: ofParts }: Pick<Marks, 'names' | 'required'>,
): NativeOptions | undefined {
  const { audio, modalities } = request
  const isSpoken = audio !== undefined || modalities?.includes(AUDIO) === true
  // Without audio, `modalities` is the default.
  const fields = isSpoken && modalities ? { ...otherMembers(request), modalities } : otherMembers(request)
  const isEmpty = names.length === 0 && ofParts.length === 0 && !isSpoken
  if (isEmpty && Object.keys(fields).length === 0) return undefined
  const required = [...serverToolsIn(fields), ...(isSpoken ? [SPOKEN_ANSWER] : []), ...ofParts]
  return { origin: OPENAI_ORIGIN, fields, headers: {}, marks: names, ...(required.length > 0 && { required }) }
}

const AUDIO = 'audio'
