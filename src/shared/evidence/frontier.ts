import { nodeHash, treeRoot } from './merkle.ts'

/** Told of each complete subtree of 2^level leaves, `level` ≥ 1, when its last leaf comes. */
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

  append(leaf: Buffer, completed?: OnSubtree): void {
    let root = leaf
    let level = 0
    // Each one bit at the end of the size is a subtree as large as the one at hand.
    for (let rest = this.#size; rest % 2 === 1; rest = (rest - 1) / 2) {
      root = nodeHash(this.#roots.pop()!, root)
      level += 1
      completed?.(level, (rest - 1) / 2, root)
    }
    this.#roots.push(root)
    this.#size += 1
  }

  /** RFC 6962 root over all leaves so far. */
  root(): Buffer {
    const roots = this.#roots
    let root = roots.at(-1)
    if (root === undefined) return treeRoot([])
    for (let at = roots.length - 2; at >= 0; at -= 1) root = nodeHash(roots[at]!, root)
    return root
  }
}

const oneBits = (size: number): number => {
  let count = 0
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) count += rest % 2
  return count
}
