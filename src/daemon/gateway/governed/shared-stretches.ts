/** The multiplier of the rolling hash. An odd number without a pattern in its bits. */
const FACTOR = 0x01000193

/**
 * Returns the stretches of `text` that consist of runs of at least `least` bytes that also occur in `other`. They are
 * ordered and disjoint: [start, end). The time is linear in both lengths.
 */
export function sharedStretches(text: Uint8Array, other: Uint8Array, least: number): [start: number, end: number][] {
  if (text.length < least || other.length < least) return []
  const isShared = new Uint8Array(text.length)
  const starts = startsByHash(text, least)
  // Most positions of the other text are skipped by this filter alone.
  const filter = new Uint8Array(65_536)
  for (const hash of starts.keys()) filter[hash >>> 16] = 1
  eachHash(other, least, (hash, at) => {
    if (filter[hash >>> 16] === 0) return
    const candidates = starts.get(hash)
    if (!candidates) return
    const others = candidates.filter((start) => !isSame(text, start, other, at, least))
    if (others.length === candidates.length) return
    for (const start of candidates) if (!others.includes(start)) isShared.fill(1, start, start + least)
    // Each run is searched only once, so that a repeated text costs no more than another.
    if (others.length === 0) starts.delete(hash)
    else starts.set(hash, others)
  })
  return stretchesOf(isShared)
}

function stretchesOf(isShared: Uint8Array): [start: number, end: number][] {
  const stretches: [number, number][] = []
  for (let start = isShared.indexOf(1); start >= 0; ) {
    const next = isShared.indexOf(0, start)
    const end = next < 0 ? isShared.length : next
    stretches.push([start, end])
    start = isShared.indexOf(1, end)
  }
  return stretches
}

function startsByHash(text: Uint8Array, length: number): Map<number, number[]> {
  const starts = new Map<number, number[]>()
  eachHash(text, length, (hash, at) => {
    const known = starts.get(hash)
    if (known) known.push(at)
    else starts.set(hash, [at])
  })
  return starts
}

/** Calls `visit` with the hash of every stretch of this length, and with its start. */
function eachHash(bytes: Uint8Array, length: number, visit: (hash: number, at: number) => void): void {
  let power = 1
  for (let at = 1; at < length; at++) power = Math.imul(power, FACTOR)
  let hash = 0
  for (let at = 0; at < bytes.length; at++) {
    if (at >= length) hash = (hash - Math.imul((bytes[at - length] as number) + 1, power)) | 0
    hash = (Math.imul(hash, FACTOR) + (bytes[at] as number) + 1) | 0
    // The low bits of such a hash are weak, so they are mixed with the high bits.
    if (at >= length - 1) visit((hash ^ (hash >>> 15)) >>> 0, at - length + 1)
  }
}

function isSame(text: Uint8Array, start: number, other: Uint8Array, at: number, length: number): boolean {
  for (let offset = 0; offset < length; offset++) {
    if (text[start + offset] !== other[at + offset]) return false
  }
  return true
}
