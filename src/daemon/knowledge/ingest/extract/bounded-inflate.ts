import { TransformStream } from 'node:stream/web'
import { inflateSync } from 'node:zlib'
import { PDF_STREAM_BYTES } from '../../../../shared/spec-limits.ts'

/**
 * What PDF.js takes for the platform's DecompressionStream, with a bound: a stream that unpacks to more is an error, and PDF.js
 * goes on with a reader of its own. The platform's has no bound, and what it has unpacked is lost to the process for good when the
 * thread is ended in the middle: a gigabyte for each bomb (measured on Node 20).
 */
export class BoundedInflate {
  readonly readable: ReadableStream<Uint8Array>
  readonly writable: WritableStream<Uint8Array>

  constructor(format: string) {
    if (format !== 'deflate') throw new TypeError(`${format} is not supported`)
    const chunks: Uint8Array[] = []
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk) => void chunks.push(chunk),
      flush(controller) {
        const bytes = inflateSync(Buffer.concat(chunks), { maxOutputLength: PDF_STREAM_BYTES })
        if (bytes.length > 0) controller.enqueue(bytes)
      },
    })
    this.readable = readable
    this.writable = writable
  }
}
