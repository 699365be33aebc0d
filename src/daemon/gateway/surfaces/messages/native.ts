// The options of a request that only Anthropic's API has.
import { invalidField } from '../../../../shared/errors.ts'
import type { Dropped } from '../../../../shared/wire/chat.ts'
import { HttpsUrl } from '../../../../shared/wire/message-blocks.ts'
import { type MessagesRequest, otherMembers } from '../../../../shared/wire/messages.ts'
import { withoutTag } from '../../../../shared/wire/tags.ts'
import type { CacheMark, NativeBlock, NativeOptions, ThinkingConfig } from '../../../models/conversation.ts'
import { isObject } from '../../../platform/text/json.ts'
import type { PolicyUses } from '../../../safety/policies/policies.ts'

/** The kind of provider that accepts these options. */
export const ORIGIN = 'anthropic'
const BETA = 'anthropic-beta'
/** The member of the body that some servers with this API read instead of the header. */
const BODY_BETA = 'anthropic_beta'
const VERSION = 'anthropic-version'
/** The version that the gateway itself sends. Clients that send the same value ask for nothing else. */
const USUAL_VERSION = '2023-06-01'

/** The client's headers for the provider, and the values that the operator forbids. */
export type NativeHeaders = {
  headers: Readonly<Record<string, string>>
  /** The allowed betas of the body. */
  bodyBetas?: readonly string[] | undefined
  dropped: readonly Dropped[]
}

/**
 * Reads the headers that select features of Anthropic's API, and the betas of the body.
 * @param allowedBetas the betas that the operator allows. Undefined: all.
 * @throws VALIDATION_ERROR for a malformed value
 */
export function toNativeHeaders(
  given: Readonly<Record<string, string | string[] | undefined>>,
  allowedBetas: readonly string[] | undefined,
  body: object = {},
): NativeHeaders {
  const { [BETA]: beta, [VERSION]: version } = given
  const bodyBeta = (body as Record<string, unknown>)[BODY_BETA] ?? undefined
  if (beta === undefined && bodyBeta === undefined && (version === undefined || version === USUAL_VERSION)) return NONE
  const betas = betasIn(beta, `The header ${BETA}`, BETA)
  const bodyBetas = betasIn(bodyBeta, BODY_BETA, BODY_BETA)
  if (version !== undefined && !/^\d{4}-\d{2}-\d{2}$/.test(String(version))) {
    throw invalidField(VERSION, `The header ${VERSION} must be a date such as "${USUAL_VERSION}".`)
  }
  const isAllowed = (one: string) => allowedBetas?.includes(one) ?? true
  const forbidden = (names: readonly string[], where: string) =>
    names.filter((one) => !isAllowed(one)).map((one): Dropped => ({ field: `${where}: ${one}`, why: 'operator' }))
  const kept = betas.filter(isAllowed)
  const keptInBody = bodyBetas.filter(isAllowed)
  return {
    headers: {
      ...(version !== undefined && version !== USUAL_VERSION && { [VERSION]: String(version) }),
      ...(kept.length > 0 && { [BETA]: kept.join(',') }),
    },
    ...(keptInBody.length > 0 && { bodyBetas: keptInBody }),
    dropped: [...forbidden(betas, BETA), ...forbidden(bodyBetas, BODY_BETA)],
  }
}

function betasIn(value: unknown, name: string, field: string): string[] {
  const values = [value ?? []].flat()
  const asked = values.flatMap((one) => (typeof one === 'string' ? one.split(',').map((beta) => beta.trim()) : [one]))
  const betas = [...new Set(asked)].filter((one) => one !== '')
  if (betas.every((one) => typeof one === 'string' && /^[\w.-]{1,128}$/.test(one))) return betas as string[]
  throw invalidField(field, `${name} must be a list of names such as "context-1m-2025-08-07".`)
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
  /** Adds the place of inference that the request asks for. */
  addInferenceGeo(geo: unknown): void
  /** @param type the type of a tool that Anthropic defines, or the member of the request that enables tools */
  addTool(type: string): void
  addCache(mark: CacheMark): void
}

export function createMarks(): Marks {
  const names = new Set<string>()
  let cachesForAnHour = false
  const serverTools = new Set<string>()
  let addresses = false
  let inferenceGeo: string | undefined
  function addCache({ ttl }: { ttl?: unknown }): void {
    names.add('cache_control')
    cachesForAnHour ||= ttl === '1h'
  }
  /** Collects what a block contains at any depth. The JSON depth limit of the body bounds the recursion. */
  function addContents(value: unknown, name: string): void {
    if (Array.isArray(value)) for (const item of value) addContents(item, name)
    if (!isObject(value)) return
    if (name === 'cache_control') addCache(value)
    // Other members named `url` are only texts, such as the page of a search result.
    if (value.type === 'url' || (name === 'source' && 'url' in value)) {
      addresses = true
      requireHttps(value.url)
    }
    for (const [key, member] of Object.entries(value)) {
      // The arguments of a tool that the provider has already called.
      if (key !== 'input' || !String(value.type).endsWith('_tool_use')) addContents(member, key)
    }
  }
  return {
    names,
    get uses() {
      return { serverTools: [...serverTools], addresses, inferenceGeo }
    },
    addBlock(block) {
      names.add(block.type === 'text' ? 'citations' : block.type)
      addContents(block, '')
    },
    addInferenceGeo(geo) {
      inferenceGeo = typeof geo === 'string' ? geo : JSON.stringify(geo)
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
    addCache,
  }
}

function requireHttps(url: unknown): void {
  const { error } = HttpsUrl.safeParse(url)
  if (error) throw invalidField('messages', `Invalid messages: ${error.issues[0]?.message}.`)
}

/** Returns the native options of a request. Undefined if it has none. */
export function toNative(
  request: Partial<MessagesRequest>,
  { headers, bodyBetas }: NativeHeaders,
  marks: Marks,
): NativeOptions | undefined {
  const { output_config: output, thinking: config, cache_control: cache } = request
  const { effort, format: _, ...otherOutput } = output ?? {}
  const { user_id: __, ...otherMetadata } = withoutTag(request.metadata) ?? {}
  const { [BODY_BETA]: _betas, ...others } = otherMembers(request)
  const fields: Record<string, unknown> = {
    ...others,
    ...(bodyBetas && { [BODY_BETA]: bodyBetas }),
    ...(Object.keys(otherOutput).length > 0 && { output_config: otherOutput }),
    ...(Object.keys(otherMetadata).length > 0 && { metadata: otherMetadata }),
  }
  if (cache) marks.addCache(cache)
  const { inference_geo: geo } = fields
  if (geo !== undefined && geo !== null) marks.addInferenceGeo(geo)
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
