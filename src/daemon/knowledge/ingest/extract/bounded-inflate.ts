import { TransformStream } from 'node:stream/web'
import { inflateSync } from 'node:zlib'

/** The maximum unpacked size of one PDF stream on the fast path. */
const PDF_STREAM_BYTES = 67_108_864

/**
 * Replaces the platform's DecompressionStream for PDF.js, with a size limit. If a stream exceeds the limit, this class
 * throws an error, and PDF.js continues with its own decoder. The platform's stream has no limit. The platform's stream
 * also leaks its output if the thread is terminated midway: a gigabyte per decompression bomb (measured on Node 20).
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
