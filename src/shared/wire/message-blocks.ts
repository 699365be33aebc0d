// The content blocks of Anthropic's Messages API.
import { z } from 'zod'
import { URL_CHARS } from '../spec-limits.ts'
import { closedObject, oneOf, optional } from './common.ts'
import { longList } from './long-list.ts'

/** A cache breakpoint. It may stand on every block, on a tool, and on the request itself. */
const CacheControl = closedObject(
  {
    type: z.literal('ephemeral', { error: 'cache_control.type must be ephemeral' }),
    ttl: optional(oneOf('cache_control.ttl', ['5m', '1h'])),
    scope: optional(oneOf('cache_control.scope', ['global', 'organization', 'workspace'])),
  },
  'cache_control must be {type: "ephemeral", ttl}',
).meta({ id: 'CacheControl' })
export const cached = { cache_control: optional(CacheControl) }

export const TextBlock = z.object({ type: z.literal('text'), text: z.string() })
/** The citations of a text are sent back as the model created them. */
const CachedText = z
  .object({
    ...TextBlock.shape,
    citations: optional(z.array(z.looseObject({ type: z.string() }))),
    ...cached,
  })
  .meta({ id: 'TextBlockParam' })
/** An address that the provider fetches. The gateway never fetches it. */
export const HttpsUrl = z
  .string()
  .regex(/^https:\/\/\S+$/, { error: 'an address must be an https URL' })
  .max(URL_CHARS, { error: `an address may have at most ${URL_CHARS} characters` })
/** A media type. Guards do not inspect it. */
export const MEDIA_TYPE = /^[a-z]+\/[\w.+-]{1,64}$/
const Base64Source = z.object({
  type: z.literal('base64'),
  media_type: z.string().regex(MEDIA_TYPE, { error: 'media_type must be a media type, such as "image/png"' }),
  data: z.base64(),
})
const UrlSource = z.object({ type: z.literal('url'), url: HttpsUrl })
const FileSource = z.object({ type: z.literal('file'), file_id: z.string().regex(/^[\w-]{1,128}$/) })

const ImageBlock = z
  .looseObject({
    type: z.literal('image'),
    source: z.discriminatedUnion('type', [Base64Source, UrlSource, FileSource]),
    ...cached,
  })
  .meta({ id: 'ImageBlockParam' })
const citations = optional(z.looseObject({ enabled: optional(z.boolean()) }))
const DocumentBlock = z
  .looseObject({
    type: z.literal('document'),
    source: z.discriminatedUnion('type', [
      Base64Source,
      UrlSource,
      FileSource,
      z.object({ type: z.literal('text'), media_type: z.string(), data: z.string() }),
      z.object({
        type: z.literal('content'),
        content: z.union([z.string(), longList(z.array(z.discriminatedUnion('type', [CachedText, ImageBlock])))]),
      }),
    ]),
    title: optional(z.string()),
    context: optional(z.string()),
    citations,
    ...cached,
  })
  .meta({ id: 'DocumentBlockParam' })
const SearchResultBlock = z
  .looseObject({
    type: z.literal('search_result'),
    source: z.string(),
    title: z.string(),
    content: longList(z.array(CachedText)),
    citations,
    ...cached,
  })
  .meta({ id: 'SearchResultBlockParam' })
/** Blocks that models and their tools have created, as clients send them back. */
const NativeBlock = z
  .looseObject({
    type: z
      .string()
      .regex(
        /^(server_tool_use|mcp_tool_use|[a-z_]+_tool_result|tool_reference|container_upload|compaction|fallback)$/,
        { error: 'a block must have a known type, such as text, image, document and search_result, and be complete' },
      ),
    ...cached,
  })
  .meta({ id: 'NativeBlockParam' })
export const SystemText = TextBlock.extend(cached)
export const ToolUseBlock = z.object({
  type: z.literal('tool_use'),
  id: z.string(),
  name: z.string(),
  input: z.looseObject({}),
})
export const ThinkingBlock = z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() })
export const RedactedThinkingBlock = z.object({ type: z.literal('redacted_thinking'), data: z.string() })
const ToolResultBlock = z
  .object({
    type: z.literal('tool_result'),
    tool_use_id: z.string(),
    content: optional(
      z.union([
        z.string(),
        longList(
          z.array(
            z.union([
              z.discriminatedUnion('type', [CachedText, ImageBlock, DocumentBlock, SearchResultBlock]),
              NativeBlock,
            ]),
          ),
        ),
      ]),
    ),
    is_error: optional(z.boolean()),
    ...cached,
  })
  .meta({ id: 'ToolResultBlockParam' })

export const UserBlock = z
  .union([
    z.discriminatedUnion('type', [CachedText, ImageBlock, DocumentBlock, SearchResultBlock, ToolResultBlock]),
    NativeBlock,
  ])
  .meta({ id: 'UserBlockParam' })
export const AssistantBlock = z
  .union([
    z.discriminatedUnion('type', [CachedText, ToolUseBlock.extend(cached), ThinkingBlock, RedactedThinkingBlock]),
    NativeBlock,
  ])
  .meta({ id: 'AssistantBlockParam' })
