import { HASH_BYTES, nodeHash, treeRoot } from './merkle.ts'

/** The level of the smallest reported subtrees. Each of these subtrees has 2^8 leaves. */
const REPORTED_LEVEL = 8

/**
 * This function is called when the last leaf of a complete subtree arrives. The subtree has 2^level leaves, with
 * `level` ≥ 8.
 */
export type OnSubtree = (level: number, index: number, root: Buffer) => void

/** An append-only tree. Stores only the roots of its complete subtrees: one root for each set bit of its size. */
export class Frontier {
  #size: number
  /** The roots, from the largest subtree to the smallest. */
  readonly #roots: Buffer[]

  /**
   * @param roots of the complete subtrees that make up `size` leaves, the largest first
   * @throws RangeError if the number of roots does not match the size
   */
  constructor(size = 0, roots: readonly Buffer[] = []) {
    if (roots.length !== oneBits(size))
      throw new RangeError(`a tree of ${size} leaves cannot have ${roots.length} roots`)
    this.#size = size
    this.#roots = [...roots]
  }

  get size(): number {
    return this.#size
  }

  /** Returns a copy. Later appends to the original do not change the copy, and vice versa. */
  copy(): Frontier {
    return new Frontier(this.#size, this.#roots)
  }

  /**
   * The tree of the leading leaves that fill complete subtrees of 2^level leaves. Copies the roots, so that the buffers
   * that contain the leaves can be freed.
   */
  wholePart(level: number): Frontier {
    const leaves = 2 ** level
    const size = this.#size - (this.#size % leaves)
    return new Frontier(size, this.#roots.slice(0, oneBits(size)).map(alone))
  }

  /** Appends concatenated leaves of 32 bytes each. Do not modify the buffer afterwards. */
  append(leaves: Buffer, completed?: OnSubtree): void {
    for (let from = 0; from < leaves.length; ) {
      const level = this.#levelThatFits((leaves.length - from) / HASH_BYTES)
      const to = from + HASH_BYTES * 2 ** level
      const own = leaves.subarray(from, to)
      this.#appendSubtree(level, level === 0 ? own : treeRoot(own), completed)
      from = to
    }
  }

  /**
   * The level of the largest subtree that can be appended in one step. The subtree begins at the current size, has at
   * most `leaves` leaves, and contains no smaller subtree that must be reported.
   */
  #levelThatFits(leaves: number): number {
    let level = 0
    while (level < REPORTED_LEVEL && 2 ** (level + 1) <= leaves && this.#size % 2 ** (level + 1) === 0) level += 1
    return level
  }

  #appendSubtree(ownLevel: number, ownRoot: Buffer, completed?: OnSubtree): void {
    let [level, root] = [ownLevel, ownRoot]
    let index = this.#size / 2 ** level
    if (level >= REPORTED_LEVEL) completed?.(level, index, root)
    // A subtree at an odd index has a left sibling of the same size.
    while (index % 2 === 1) {
      root = nodeHash(this.#roots.pop()!, root)
      level += 1
      index = (index - 1) / 2
      if (level >= REPORTED_LEVEL) completed?.(level, index, root)
    }
    this.#roots.push(root)
    this.#size += 2 ** ownLevel
  }

  /** RFC 6962 root over all leaves so far. */
  root(): Buffer {
    const roots = this.#roots
    let root = roots.at(-1)
    if (root === undefined) return treeRoot(Buffer.alloc(0))
    for (let at = roots.length - 2; at >= 0; at -= 1) root = nodeHash(roots[at]!, root)
    return root
  }
}

/** Returns a copy with its own memory, because a root may be a slice of a large buffer of leaves. */
const alone = (root: Buffer): Buffer => {
  const copy = Buffer.alloc(HASH_BYTES)
  root.copy(copy)
  return copy
}

const oneBits = (size: number): number => {
  let count = 0
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) count += rest % 2
  return count
}
