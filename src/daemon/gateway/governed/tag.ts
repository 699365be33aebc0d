// The tag to which the cost of a request is attributed (docs/billing.md, Tags).
import type { IncomingHttpHeaders } from 'node:http'
import { invalidField } from '../../../shared/errors.ts'
import { isTag, TAG_HEADER, TAG_RULE } from '../../../shared/wire/tags.ts'

const HEADER = TAG_HEADER.toLowerCase()

/**
 * Returns the tag of a request: the header, or `metadata.tag` on the surfaces whose body has `metadata`. The header
 * overrides the body. A malformed `metadata.tag` is no tag, because `metadata` belongs to the client.
 * @throws VALIDATION_ERROR for a malformed header
 */
export function tagOf(headers: IncomingHttpHeaders, body: unknown): string | undefined {
  const given = headers[HEADER]
  if (given === undefined) return tagIn(body)
  if (isTag(given)) return given
  throw invalidField(TAG_HEADER, `The header ${TAG_HEADER} must have ${TAG_RULE}. Send it once.`, given)
}

function tagIn(body: unknown): string | undefined {
  const { metadata } = (body ?? {}) as { metadata?: { tag?: unknown } | null }
  const tag = metadata?.tag
  return isTag(tag) ? tag : undefined
}
