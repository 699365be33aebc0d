import { z } from 'zod'
import { TAG_CHARS } from '../spec-limits.ts'

/** Stands for all further tags in reports. It is not a tag, so no client can send it. */
export const OTHER_TAGS = '(other)'

/** The request header that attributes the cost of a request to a tag. */
export const TAG_HEADER = 'X-AIGW-Tag'

/** ASCII without spaces, quotes, and formula signs at the start. A tag is therefore safe in JSON, CSV and URLs. */
const TAG = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$/

export const isTag = (text: unknown): text is string =>
  typeof text === 'string' && text.length <= TAG_CHARS && TAG.test(text)

/** What a tag is, for error messages and descriptions. */
export const TAG_RULE = `1 to ${TAG_CHARS} letters, digits and the characters . _ : / @ + -, and begin with a letter or digit`

/** Returns `metadata` of a request without the tag, which is for the gateway only. Undefined if nothing else remains. */
export function withoutTag<Metadata>(metadata: Metadata): Metadata | undefined {
  const { tag, ...others } = (metadata ?? {}) as { tag?: unknown }
  if (!isTag(tag)) return metadata
  return Object.keys(others).length === 0 ? undefined : (others as Metadata)
}

/** The header in /openapi.json. */
export const TagHeader = z
  .string()
  .max(TAG_CHARS)
  .optional()
  .meta({ description: `Attributes the cost of the request to this tag: ${TAG_RULE}` })
