import { HASH_BYTES, nodeHash, treeRoot } from './merkle.ts'

/** The smallest subtrees that anybody is told of: 2^8 leaves. */
const TOLD_LEVEL = 8

/** Told of each complete subtree of 2^level leaves, `level` ≥ 8, when its last leaf comes. */
export type OnSubtree = (level: number, index: number, root: Buffer) => void

/** A tree that only grows, kept as the roots of its complete subtrees: one for each bit that is set in its size. */
export class Frontier {
  #size: number
  /** From the largest subtree to the smallest. */
  readonly #roots: Buffer[]

  /**
   * @param roots of the complete subtrees that make up `size` leaves, the largest first
   * @throws RangeError for another number of roots than such a tree has
   */
  constructor(size = 0, roots: readonly Buffer[] = []) {
    if (roots.length !== oneBits(size)) throw new RangeError(`a tree of ${size} leaves has not ${roots.length} roots`)
    this.#size = size
    this.#roots = [...roots]
  }

  get size(): number {
    return this.#size
  }

  /** The tree as it is now, whatever is appended to this one. */
  copy(): Frontier {
    return new Frontier(this.#size, this.#roots)
  }

  /** The tree of the first of its leaves, as many as fill whole subtrees of 2^level; fit to be kept for long. */
  wholePart(level: number): Frontier {
    const leaves = 2 ** level
    const size = this.#size - (this.#size % leaves)
    return new Frontier(size, this.#roots.slice(0, oneBits(size)).map(alone))
  }

  /** Leaves one behind the other, 32 bytes each, which must not change any more. */
  append(leaves: Buffer, completed?: OnSubtree): void {
    for (let from = 0; from < leaves.length; ) {
      const level = this.#levelThatFits((leaves.length - from) / HASH_BYTES)
      const to = from + HASH_BYTES * 2 ** level
      const own = leaves.subarray(from, to)
      this.#appendSubtree(level, level === 0 ? own : treeRoot(own), completed)
      from = to
    }
  }

  /** Of the largest subtree that begins here, has no more leaves than this, and is none that contains one to be told of. */
  #levelThatFits(leaves: number): number {
    let level = 0
    while (level < TOLD_LEVEL && 2 ** (level + 1) <= leaves && this.#size % 2 ** (level + 1) === 0) level += 1
    return level
  }

  #appendSubtree(ownLevel: number, ownRoot: Buffer, completed?: OnSubtree): void {
    let [level, root] = [ownLevel, ownRoot]
    let index = this.#size / 2 ** level
    if (level >= TOLD_LEVEL) completed?.(level, index, root)
    // Beside each subtree at an odd place stands one as large as itself.
    while (index % 2 === 1) {
      root = nodeHash(this.#roots.pop()!, root)
      level += 1
      index = (index - 1) / 2
      if (level >= TOLD_LEVEL) completed?.(level, index, root)
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

/** A copy with memory of its own: a root may be a piece of all the leaves below it. */
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
