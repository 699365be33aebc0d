/** Streams documents as multipart/form-data. */
import { randomUUID } from 'node:crypto'
import type { UploadBody } from '../../api/client.ts'
import type { Document } from './documents.ts'

// Escapes names like a browser (HTML, "multipart/form-data encoding algorithm").
const toFileName = (name: string): string =>
  name.replace(/["\r\n]/g, (char) => (char === '"' ? '%22' : char === '\r' ? '%0D' : '%0A'))

/**
 * Encodes the documents as `files` parts (RFC 7578). Files are streamed. The length of the body is known before it is
 * sent.
 */
export function toMultipart(documents: Document[]): UploadBody {
  const boundary = `aigw-${randomUUID()}`
  const parts = documents.map((document) => ({
    document,
    head: Buffer.from(
      `--${boundary}\r\ncontent-disposition: form-data; name="files"; filename="${toFileName(document.name)}"\r\n` +
        `content-type: ${document.type}\r\n\r\n`,
    ),
  }))
  const lineBreak = Buffer.from('\r\n')
  const end = Buffer.from(`--${boundary}--\r\n`)
  const length = parts.reduce(
    (sum, { document, head }) => sum + head.length + document.size + lineBreak.length,
    end.length,
  )
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    length,
    async *open() {
      for (const { document, head } of parts) {
        yield head
        yield* document.read()
        yield lineBreak
      }
      yield end
    },
  }
}
