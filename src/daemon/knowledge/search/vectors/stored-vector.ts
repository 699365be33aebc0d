import type { Vector } from '../../../models/provider.ts'
import type { Engine } from '../../../platform/db/engine.ts'
import { signatureOf } from './signature.ts'
import type { UnitVector } from './unit-vector.ts'

/** Scales a vector to length 1. Returns undefined for a zero vector. */
export function toUnitVector(numbers: Vector): UnitVector | undefined {
  // Divide by the largest number first, because the square of a very large or very small number exceeds a double's
  // range.
  let largest = 0
  for (const number of numbers) largest = Math.max(largest, Math.abs(number))
  if (!(largest > 0 && largest < Number.POSITIVE_INFINITY)) return undefined
  let sum = 0
  for (const number of numbers) sum += (number / largest) ** 2
  const length = Math.sqrt(sum)
  return Float32Array.from(numbers, (number) => number / largest / length)
}

export function cosine(one: UnitVector, other: UnitVector): number {
  let sum = 0
  for (let at = 0; at < one.length; at++) sum += (one[at] as number) * (other[at] as number)
  return sum
}

export type VectorColumns = { signature: Buffer | string; vector: Buffer | string }

/**
 * Returns the columns of passage_vectors. On SQLite, their values are bytes. On PostgreSQL, their values are literals
 * of `bit varying` and `real[]`.
 */
export function toColumns(vector: UnitVector, engine: Engine['name']): VectorColumns {
  return { signature: toSignatureColumn(signatureOf(vector), engine), vector: toVectorColumn(vector, engine) }
}

export const toSignatureColumn = (signature: Buffer, engine: Engine['name']): Buffer | string =>
  engine === 'sqlite' ? signature : `x${signature.toString('hex')}`

/** Returns the column value that stores a vector. On SQLite, the value contains little-endian 32-bit floats. */
function toVectorColumn(vector: UnitVector, engine: Engine['name']): Buffer | string {
  if (engine === 'postgres') return `{${vector.join(',')}}`
  return toFloatBytes(vector)
}

export function toFloatBytes(vector: UnitVector): Buffer {
  const bytes = Buffer.alloc(vector.length * 4)
  vector.forEach((number, at) => void bytes.writeFloatLE(number, at * 4))
  return bytes
}

/** Decodes a vector from SQLite. */
export function fromFloatBytes(bytes: Uint8Array): UnitVector {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const vector = new Float32Array(bytes.byteLength / 4)
  for (let at = 0; at < vector.length; at++) vector[at] = view.getFloat32(at * 4, true)
  return vector
}

/** The header of a one-dimensional array in PostgreSQL's `array_send` format, in bytes. */
const ARRAY_HEAD_BYTES = 20
/** The size of an array element in bytes: a length field of four bytes, then the number's four bytes. */
const ELEMENT_BYTES = 8

/** Decodes PostgreSQL's `array_send` output of a `real[]`. */
export function fromArrayBytes(bytes: Uint8Array): UnitVector {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const vector = new Float32Array((bytes.byteLength - ARRAY_HEAD_BYTES) / ELEMENT_BYTES)
  for (let at = 0; at < vector.length; at++) vector[at] = view.getFloat32(ARRAY_HEAD_BYTES + at * ELEMENT_BYTES + 4)
  return vector
}
