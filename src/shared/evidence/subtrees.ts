import { nodeHash, treeRoot } from './merkle.ts'

/** Reads the root of a complete subtree. The subtree has 2^level leaves and starts at leaf index × 2^level. */
export type SubtreeReader = (level: number, index: number) => Buffer | Promise<Buffer>

/**
 * Returns the RFC 6962 inclusion path of the leaf at `index` in the tree of the first `size` leaves. Throws RangeError
 * for an index out of range.
 */
export async function inclusionProof(index: number, size: number, read: SubtreeReader): Promise<Buffer[]> {
  if (!Number.isSafeInteger(index) || index < 0 || index >= size) throw new RangeError(`no leaf ${index} of ${size}`)
  const path: Buffer[] = []
  let [from, to] = [0, size]
  while (to - from > 1) {
    const middle = from + largestPowerBelow(to - from)
    if (index < middle) {
      path.push(await rangeRoot(middle, to, read))
      to = middle
    } else {
      path.push(await rangeRoot(from, middle, read))
      from = middle
    }
  }
  return path.reverse()
}

/**
 * Returns the RFC 6962 consistency path from `oldSize` leaves to `newSize`. Throws RangeError if the new tree is
 * smaller.
 */
export async function consistencyProof(oldSize: number, newSize: number, read: SubtreeReader): Promise<Buffer[]> {
  if (!Number.isSafeInteger(oldSize) || oldSize < 0 || !(oldSize <= newSize)) {
    throw new RangeError(`no tree of ${oldSize} in one of ${newSize}`)
  }
  if (oldSize === 0 || oldSize === newSize) return []
  const path: Buffer[] = []
  let [from, to] = [0, newSize]
  while (to !== oldSize) {
    const middle = from + largestPowerBelow(to - from)
    if (oldSize <= middle) {
      path.push(await rangeRoot(middle, to, read))
      to = middle
    } else {
      path.push(await rangeRoot(from, middle, read))
      from = middle
    }
  }
  // The verifier knows the root of a complete old tree. If the old tree is incomplete, the path must also include the
  // root of its last subtree.
  if (from > 0) path.push(await rangeRoot(from, to, read))
  return path.reverse()
}

/** Returns the root over the first `size` leaves. */
export const rootOfSize = async (size: number, read: SubtreeReader): Promise<Buffer> =>
  size === 0 ? treeRoot(Buffer.alloc(0)) : rangeRoot(0, size, read)

/** Returns the root over a range of leaves. The range must begin at a multiple of the size of its subtree. */
async function rangeRoot(from: number, to: number, read: SubtreeReader): Promise<Buffer> {
  const size = to - from
  const level = Math.round(Math.log2(size))
  if (2 ** level === size) return read(level, from / size)
  const middle = from + largestPowerBelow(size)
  return nodeHash(await rangeRoot(from, middle, read), await rangeRoot(middle, to, read))
}

/** Returns the largest power of two that is smaller than `size`, for sizes above 1. */
function largestPowerBelow(size: number): number {
  const power = 2 ** Math.floor(Math.log2(size - 1))
  // The logarithm may be rounded up if `size` is just below a power of two above 2^48.
  return power < size ? power : power / 2
}
