// The options of a request that only Anthropic's API has.
import { invalidField } from '../../../../shared/errors.ts'
import type { Dropped } from '../../../../shared/wire/chat.ts'
import { type MessagesRequest, type NativeObject, otherMembers } from '../../../../shared/wire/messages.ts'
import type { CacheMark, NativeBlock, NativeOptions, ThinkingConfig } from '../../../models/conversation.ts'
import { ProviderError } from '../../../models/provider.ts'
import { parseObject } from '../../../platform/text/json.ts'
import type { PolicyUses } from '../../../safety/policies/policies.ts'

/** The kind of provider that accepts these options. */
export const ORIGIN = 'anthropic'
const BETA = 'anthropic-beta'
const VERSION = 'anthropic-version'
/** The version that the gateway itself sends. Clients that send the same value ask for nothing else. */
const USUAL_VERSION = '2023-06-01'

/** The client's headers for the provider, and the values that the operator forbids. */
export type NativeHeaders = { headers: Readonly<Record<string, string>>; dropped: readonly Dropped[] }

/**
 * Reads the headers that select features of Anthropic's API.
 * @param allowedBetas the betas that the operator allows. Undefined: all.
 * @throws VALIDATION_ERROR for a malformed value
 */
export function toNativeHeaders(
  given: Readonly<Record<string, string | string[] | undefined>>,
  allowedBetas: readonly string[] | undefined,
): NativeHeaders {
  const { [BETA]: beta, [VERSION]: version } = given
  if (beta === undefined && (version === undefined || version === USUAL_VERSION)) return NONE
  const asked = [beta ?? []].flat().flatMap((value) => value.split(',').map((one) => one.trim()))
  const betas = [...new Set(asked)].filter((one) => one !== '')
  if (!betas.every((one) => /^[\w.-]{1,128}$/.test(one))) {
    throw invalidField(BETA, `The header ${BETA} must be a list of names such as "context-1m-2025-08-07".`)
  }
  if (version !== undefined && !/^\d{4}-\d{2}-\d{2}$/.test(String(version))) {
    throw invalidField(VERSION, `The header ${VERSION} must be a date such as "${USUAL_VERSION}".`)
  }
  const isAllowed = (one: string) => allowedBetas?.includes(one) ?? true
  const kept = betas.filter(isAllowed)
  return {
    headers: {
      ...(version !== undefined && version !== USUAL_VERSION && { [VERSION]: String(version) }),
      ...(kept.length > 0 && { [BETA]: kept.join(',') }),
    },
    dropped: betas.filter((one) => !isAllowed(one)).map((one) => ({ field: `${BETA}: ${one}`, why: 'operator' })),
  }
}

const NONE: NativeHeaders = { headers: {}, dropped: [] }

/** Tools of Anthropic that the client runs. The provider runs all other typed tools. */
const CLIENT_TOOL = /^(?:bash|text_editor|computer|memory|browser)_/

/** Collects the members of a conversation that some providers do not support. */
export type Marks = {
  readonly names: ReadonlySet<string>
  readonly cachesForAnHour: boolean
  /** What a policy may forbid. */
  readonly uses: PolicyUses
  add(name: string): void
  addBlock(block: NativeBlock): void
  addAddress(): void
  /** @param type the type of a tool that Anthropic defines, or the member of the request that enables tools */
  addTool(type: string): void
  addCache(mark: CacheMark): void
}

export function createMarks(): Marks {
  const names = new Set<string>()
  let cachesForAnHour = false
  const serverTools = new Set<string>()
  let addresses = false
  return {
    names,
    get uses() {
      return { serverTools: [...serverTools], addresses }
    },
    addBlock({ type, source }) {
      names.add(type === 'text' ? 'citations' : type)
      if (typeof source === 'object' && source !== null && 'url' in source) addresses = true
    },
    addAddress() {
      addresses = true
    },
    addTool(type) {
      names.add('tools')
      if (!CLIENT_TOOL.test(type)) serverTools.add(type)
    },
    get cachesForAnHour() {
      return cachesForAnHour
    },
    add: (name) => void names.add(name),
    addCache({ ttl }) {
      names.add('cache_control')
      cachesForAnHour ||= ttl === '1h'
    },
  }
}

/** Returns the native options of a request. Undefined if it has none. */
export function toNative(
  request: Partial<MessagesRequest>,
  headers: NativeOptions['headers'],
  marks: Marks,
): NativeOptions | undefined {
  const { output_config: output, thinking: config, cache_control: cache } = request
  const { effort, format: _, ...otherOutput } = output ?? {}
  const { user_id: __, ...otherMetadata } = request.metadata ?? {}
  const fields: Record<string, unknown> = {
    ...otherMembers(request),
    ...(Object.keys(otherOutput).length > 0 && { output_config: otherOutput }),
    ...(Object.keys(otherMetadata).length > 0 && { metadata: otherMetadata }),
  }
  if (cache) marks.addCache(cache)
  for (const name of ['mcp_servers', 'container']) if (fields[name]) marks.addTool(name)
  const thinking = config || effort !== undefined ? { config: config as ThinkingConfig | undefined, effort } : undefined
  const isPlain = Object.keys(fields).length + Object.keys(headers).length + marks.names.size === 0
  if (isPlain && !thinking) return undefined
  return {
    origin: ORIGIN,
    fields,
    headers,
    marks: [...marks.names],
    thinking,
    ...(marks.cachesForAnHour && { cachesForAnHour: true }),
  }
}

/** Parses a block or citation of an answer. @throws ProviderError if it is not a JSON object with a type */
export function toNativeObject(json: string): NativeObject {
  const value = parseObject(json)
  if (!value || typeof value.type !== 'string') {
    throw new ProviderError('server_error', 'The provider sent a block that is not a JSON object.')
  }
  return value as NativeObject
}
