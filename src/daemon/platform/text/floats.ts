// 32-bit floats in base64, little-endian, as the embeddings API defines them.
import { endianness } from 'node:os'

const IS_BIG_ENDIAN = endianness() === 'BE'

/** Returns undefined if the bytes are not a whole number of floats. */
export function floatsOf(base64: string): Float32Array | undefined {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length % Float32Array.BYTES_PER_ELEMENT !== 0) return undefined
  if (IS_BIG_ENDIAN) bytes.swap32()
  // A copy, because the bytes are not aligned and may share memory with other buffers.
  const floats = new Float32Array(bytes.length / Float32Array.BYTES_PER_ELEMENT)
  new Uint8Array(floats.buffer).set(bytes)
  return floats
}

export function toBase64(vector: readonly number[] | Float32Array): string {
  const { buffer } = Float32Array.from(vector)
  const bytes = Buffer.from(buffer)
  if (IS_BIG_ENDIAN) bytes.swap32()
  return bytes.toString('base64')
}
