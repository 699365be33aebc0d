import { invalidField } from '../../../shared/errors.ts'
import type { ContentPart } from '../../models/conversation.ts'

const DATA_URL = /^data:(image\/[\w.+-]{1,64})(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/]+={0,2})$/i

/** Converts the data: URL of an image. @throws VALIDATION_ERROR naming `field` for any other URL */
export function toImage(field: string, url: string): ContentPart {
  const [, mediaType, data] = DATA_URL.exec(url) ?? []
  if (mediaType !== undefined && data !== undefined) return { type: 'image', mediaType: mediaType.toLowerCase(), data }
  throw invalidField(
    field,
    'An image must be a data: URL, "data:image/<type>;base64,<data>". Other URLs are never fetched.',
  )
}
