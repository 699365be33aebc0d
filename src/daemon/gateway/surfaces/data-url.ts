// Reads the images and files of a request: data: URLs, and addresses that the provider fetches.
import { invalidField } from '../../../shared/errors.ts'
import { HttpsUrl } from '../../../shared/wire/message-blocks.ts'
import type { ContentPart, FilePart } from '../../models/conversation.ts'

/** All but the data. Its parts are short, so that a long text without a comma is rejected at once. */
const DATA_URL_START = /^data:([a-z]{1,32}\/[\w.+-]{1,64})(?:;[\w=.+-]{1,64}){0,8};base64,/i
const NOT_BASE64 = /[^A-Za-z0-9+/]/

/**
 * Converts the URL of an image: a data: URL, or an https address.
 * @throws VALIDATION_ERROR naming `field` for any other URL
 */
export function toImage(field: string, url: string, detail?: string): ContentPart {
  const options = detail === undefined ? {} : { detail }
  const { mediaType, data } = readDataUrl(url)
  if (mediaType?.startsWith('image/') && data !== undefined) return { type: 'image', mediaType, data, ...options }
  if (HttpsUrl.safeParse(url).success) return { type: 'image_url', url, ...options }
  throw invalidField(
    field,
    'An image must be an https URL, which the provider fetches, or a data: URL, "data:image/<type>;base64,<data>".',
  )
}

/**
 * Converts the data: URL of a file.
 * @throws VALIDATION_ERROR naming `field` for any other URL
 */
export function toFile(field: string, url: string, name: string | undefined): FilePart {
  const { mediaType, data } = readDataUrl(url)
  if (mediaType === undefined || data === undefined) {
    throw invalidField(field, 'The data of a file must be a data: URL, "data:application/pdf;base64,<data>".')
  }
  return { type: 'file', mediaType, data, ...(name !== undefined && { name }) }
}

function readDataUrl(url: string): { mediaType?: string; data?: string } {
  const [start, mediaType] = DATA_URL_START.exec(url) ?? []
  if (start === undefined || mediaType === undefined) return {}
  const data = url.slice(start.length)
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0
  const letters = padding === 0 ? data : data.slice(0, -padding)
  return letters === '' || NOT_BASE64.test(letters) ? {} : { mediaType: mediaType.toLowerCase(), data }
}
