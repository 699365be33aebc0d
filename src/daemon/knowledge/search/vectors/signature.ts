import type { UnitVector } from './unit-vector.ts'

// Stored signatures are compared with those of queries to come: nothing in this file may ever change what it makes.

/** A signature has at least so many bits, whatever the vector has. */
const SIGNATURE_BITS = 2_048
/** The least numbers of a rotated vector; a power of two, as all of them are. */
const ROTATED_MIN = 64

/**
 * A text of bits for a vector: of several random rotations of it, the signs of all numbers. The wider the angle between two
 * vectors, the more bits of their signatures differ, by the share of the angle in a half turn (Charikar, 2002); to count them
 * takes a fraction of what the numbers take. Of the vector itself the signs alone would say too little where it has few numbers,
 * or where all vectors of a model point roughly the same way.
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
    // To turn signs by chance and to mix all numbers, twice, is as good as a random rotation and far cheaper.
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

/** The Walsh-Hadamard transform, in place: each number becomes a sum of all, with signs of its own. */
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

/** 1 and -1 by chance, twice as many as a rotated vector has numbers; the same in every daemon. */
function flipsOf(length: number, rotation: number): Int8Array {
  const key = `${length} ${rotation}`
  let flips = knownFlips.get(key)
  if (flips === undefined) {
    // xorshift32 (Marsaglia, 2003); of its first numbers those that follow from a small seed are too alike.
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

/** In how many bits each of the signatures, side by side in `all`, differs from this one. */
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

/** Words have to begin where the machine reads them; pieces of a buffer may not. */
function wordsOf(bytes: Buffer): Uint32Array {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes)
  return new Uint32Array(aligned.buffer, aligned.byteOffset, bytes.length / 4)
}

/** How many bits of a word are set: sums of neighbours, for all neighbours at once. */
function bitsOf(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
