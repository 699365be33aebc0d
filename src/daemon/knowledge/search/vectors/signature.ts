import type { UnitVector } from './unit-vector.ts'

// The output of this file must never change, because stored signatures are compared with the signatures of future
// queries.

/** The minimum number of bits of a signature, regardless of the vector's length. */
const SIGNATURE_BITS = 2_048
/** The minimum length of a rotated vector. All lengths are powers of two. */
const ROTATED_MIN = 64

/**
 * Returns the bit signature of a vector: the signs of all its numbers after several random rotations. The number of
 * differing bits grows in proportion to the angle between two vectors (Charikar, 2002). Counting bits is far cheaper
 * than comparing vectors. The signs of the vector itself do not suffice: the vector may be short, or all vectors of a
 * model may point in roughly the same direction.
 */
export function signatureOf(vector: UnitVector): Buffer {
  let length = ROTATED_MIN
  while (length < vector.length) length *= 2
  const rotations = Math.max(1, SIGNATURE_BITS / length)
  const signature = Buffer.alloc((rotations * length) / 8)
  const rotated = new Float64Array(length)
  for (let rotation = 0; rotation < rotations; rotation++) {
    const flips = flipsOf(length, rotation)
    rotated.fill(0)
    rotated.set(vector)
    // Flipping random signs and mixing the numbers, both twice, approximates a random rotation at a far lower cost.
    for (const half of [0, length]) {
      for (let at = 0; at < length; at++) rotated[at] = (rotated[at] as number) * (flips[half + at] as number)
      mix(rotated)
    }
    for (let at = 0; at < length; at++) {
      const bit = rotation * length + at
      if ((rotated[at] as number) > 0) signature[bit >> 3] = (signature[bit >> 3] as number) | (0x80 >> (bit & 7))
    }
  }
  return signature
}

/** The Walsh-Hadamard transform, in place: each number becomes a signed sum of all numbers. */
function mix(numbers: Float64Array): void {
  for (let step = 1; step < numbers.length; step *= 2) {
    for (let start = 0; start < numbers.length; start += 2 * step) {
      for (let at = start; at < start + step; at++) {
        const one = numbers[at] as number
        const other = numbers[at + step] as number
        numbers[at] = one + other
        numbers[at + step] = one - other
      }
    }
  }
}

const knownFlips = new Map<string, Int8Array>()

/**
 * Returns a pseudo-random sequence of 1 and -1, twice as long as a rotated vector. The values are the same in every
 * daemon.
 */
function flipsOf(length: number, rotation: number): Int8Array {
  const key = `${length} ${rotation}`
  let flips = knownFlips.get(key)
  if (flips === undefined) {
    // xorshift32 (Marsaglia, 2003). The first outputs are skipped, because small seeds produce similar first outputs.
    let state = length * 1_000 + rotation + 1
    const next = () => {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return state
    }
    for (let skipped = 0; skipped < 16; skipped++) next()
    flips = Int8Array.from({ length: 2 * length }, () => (next() < 0 ? -1 : 1))
    knownFlips.set(key, flips)
  }
  return flips
}

/** Returns, for each of the concatenated signatures in `all`, the number of bits that differ from `signature`. */
export function signatureDistances(all: Buffer, signature: Buffer): Uint16Array {
  const words = wordsOf(all)
  const wanted = wordsOf(signature)
  const distances = new Uint16Array(words.length / wanted.length)
  for (let at = 0, word = 0; at < distances.length; at++) {
    let distance = 0
    for (let of = 0; of < wanted.length; of++, word++) {
      distance += bitsOf((words[word] as number) ^ (wanted[of] as number))
    }
    distances[at] = distance
  }
  return distances
}

/** Returns the bytes as 32-bit words. Typed arrays need aligned data, and a slice of a buffer may be unaligned. */
function wordsOf(bytes: Buffer): Uint32Array {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes)
  return new Uint32Array(aligned.buffer, aligned.byteOffset, bytes.length / 4)
}

/** Counts the set bits of a word, by parallel sums of neighbouring bits. */
function bitsOf(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
