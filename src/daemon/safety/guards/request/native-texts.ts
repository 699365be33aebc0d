// Finds the texts in a block of a provider's own API.
import { MEDIA_TYPE } from '../../../../shared/wire/message-blocks.ts'
import type { NativeBlock } from '../../../models/conversation.ts'
import { isCipher } from '../../../platform/text/cipher.ts'

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
type Rewrite = { text(value: string): string; json(value: object): object }

/** Data that the provider has signed or encrypted. The provider rejects it if it is changed. */
const SEALED = new Set(['signature', 'thoughtSignature', 'encrypted_content', 'encrypted_index', 'encrypted_stdout'])
/** Ids that a provider has created. Other ids are inspected as text. */
const PROVIDER_ID =
  /^(?:audio|srvtoolu|mcptoolu|toolu|file|container|msg|ws|fs|ci|ig|mcp|mcpl|mcpr|cu|lsh|sh|apc|cntr|call|rs)_[\w-]{1,128}$/
const DATA_URL = /^data:image\/[a-z]+;base64,(.+)$/
const KEYWORD = /^[a-z][a-z_]{0,63}(?:_\d{8})?$/

/**
 * Replaces every text of a block with the result of `rewrite.text`, and the free JSON of tool calls with the result of
 * `rewrite.json`. Base64 data, sealed data, keywords and the provider's ids stay unchanged, if
 * they have the form of such data.
 */
export function mapNativeBlock(block: NativeBlock, rewrite: Rewrite): NativeBlock {
  return mapValue(block as unknown as Json, '', rewrite) as unknown as NativeBlock
}

function mapValue(value: Json, name: string, rewrite: Rewrite): Json {
  if (typeof value === 'string') return isOpaque(name, value) ? value : rewrite.text(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const mapped = value.map((item: Json) => mapValue(item, name, rewrite))
    return mapped.some((item, at) => item !== value[at]) ? mapped : value
  }
  if (name === 'input') return rewrite.json(value) as Json
  const members = value as { readonly [name: string]: Json }
  const isBase64 = members.type === 'base64'
  const isPicture = members.type === 'image_generation_call'
  let changed: Record<string, Json> | undefined
  for (const [key, member] of Object.entries(members)) {
    const isData = (isBase64 && key === 'data') || (isPicture && key === 'result')
    const mapped = isData && isCipher(member) ? member : mapValue(member, key, rewrite)
    if (mapped === member) continue
    changed ??= { ...members }
    changed[key] = mapped
  }
  return changed ?? value
}

function isOpaque(name: string, value: string): boolean {
  if (value === '') return true
  if (SEALED.has(name)) return isCipher(value)
  if (name === 'type' || name === 'name') return KEYWORD.test(value)
  // A screenshot of OpenAI's computer tool.
  if (name === 'image_url') return isCipher(DATA_URL.exec(value)?.[1])
  if (name === 'media_type') return MEDIA_TYPE.test(value)
  return (name === 'id' || name.endsWith('_id')) && PROVIDER_ID.test(value)
}
