import { hash } from 'node:crypto'

// RFC 6962, section 2.1. All hashes are Buffers of 32 bytes. Sizes may exceed 2^31, so the code uses no bit operations
// on sizes.

/**
 * Size of a hash in bytes. A list of hashes is one Buffer: creating an object per hash would take longer than the
 * hashing.
 */
export const HASH_BYTES = 32

// All calls share this buffer. This is safe, because no call awaits anything between filling and hashing the buffer.
const nodeInput = Buffer.alloc(1 + 2 * HASH_BYTES, 1)

/**
 * Returns the parent of two nodes: SHA-256 over the byte 1 followed by both hashes. Throws TypeError if a hash has an
 * invalid length.
 */
export function nodeHash(left: Buffer, right: Buffer): Buffer {
  // A shorter hash would leave bytes of the previous call in the buffer.
  if (left.length !== HASH_BYTES || right.length !== HASH_BYTES) throw new TypeError('a hash must have 32 bytes')
  left.copy(nodeInput, 1)
  right.copy(nodeInput, 1 + HASH_BYTES)
  return Buffer.from(hash('sha256', nodeInput, 'binary'), 'binary')
}

/**
 * Returns the root over concatenated leaves. A node without a sibling moves up one level unchanged. Without leaves, the
 * root is SHA-256 of the empty text. Throws TypeError if the length is not a multiple of HASH_BYTES.
 */
export function treeRoot(leaves: Buffer): Buffer {
  if (leaves.length % HASH_BYTES !== 0) throw new TypeError('hashes must have 32 bytes each')
  if (leaves.length === 0) return Buffer.from(hash('sha256', '', 'hex'), 'hex')
  const level = Buffer.from(leaves)
  for (let size = leaves.length / HASH_BYTES; size > 1; size = Math.ceil(size / 2)) {
    for (let at = 0; at < size; at += 2) {
      const [from, to] = [at * HASH_BYTES, (at / 2) * HASH_BYTES]
      if (at + 1 === size) level.copy(level, to, from, from + HASH_BYTES)
      else {
        level.copy(nodeInput, 1, from, from + 2 * HASH_BYTES)
        // The encoding `binary`, with one character per byte, is the cheapest way to pass the hash to `write`.
        level.write(hash('sha256', nodeInput, 'binary'), to, 'binary')
      }
    }
  }
  return level.subarray(0, HASH_BYTES)
}

const parents = (level: readonly Buffer[]): Buffer[] => {
  const above: Buffer[] = []
  for (let at = 0; at < level.length; at += 2) {
    const [left, right] = [level[at]!, level[at + 1]]
    above.push(right === undefined ? left : nodeHash(left, right))
  }
  return above
}

/**
 * Returns the inclusion proof of the leaf at `index`: the siblings on the path from the leaf to the root. Throws
 * RangeError for an index out of range.
 */
export function inclusionPath(leaves: readonly Buffer[], index: number): Buffer[] {
  if (!Number.isSafeInteger(index) || index < 0 || index >= leaves.length) throw new RangeError(`no leaf ${index}`)
  const path: Buffer[] = []
  let at = index
  for (let level = leaves; level.length > 1; level = parents(level)) {
    const neighbour = level[at % 2 === 0 ? at + 1 : at - 1]
    if (neighbour !== undefined) path.push(neighbour)
    at = half(at)
  }
  return path
}

const half = (value: number): number => Math.floor(value / 2)

/**
 * Computes the root from an inclusion path (RFC 9162, 2.1.3.2). Returns undefined if the path is too short or too long
 * for the tree.
 */
export function rootOfInclusion(
  leaf: Buffer,
  index: number,
  size: number,
  path: readonly Buffer[],
): Buffer | undefined {
  if (!isSize(index) || !isSize(size) || index >= size) return undefined
  let [at, last] = [index, size - 1]
  let root = leaf
  for (const neighbour of path) {
    if (last === 0) return undefined
    if (at % 2 === 1 || at === last) {
      root = nodeHash(neighbour, root)
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)]
    } else {
      root = nodeHash(root, neighbour)
    }
    ;[at, last] = [half(at), half(last)]
  }
  return last === 0 ? root : undefined
}

const isSize = (value: number): boolean => Number.isSafeInteger(value) && value >= 0

const NOTHING = Buffer.alloc(0)

export type ConsistencyClaim = {
  oldSize: number
  oldRoot: Buffer
  newSize: number
  newRoot: Buffer
  path: readonly Buffer[]
}

/**
 * Whether the path proves that the new tree begins with the old tree (RFC 9162, 2.1.4.2). If both trees have the same
 * size, or the old tree is empty, the path must be empty.
 */
export function verifyConsistency({ oldSize, oldRoot, newSize, newRoot, path }: ConsistencyClaim): boolean {
  if (!isSize(oldSize) || !isSize(newSize) || oldSize > newSize) return false
  if (oldSize === 0) return path.length === 0 && oldRoot.equals(treeRoot(NOTHING))
  if (oldSize === newSize) return path.length === 0 && oldRoot.equals(newRoot)
  let [at, last] = [oldSize - 1, newSize - 1]
  while (at % 2 === 1) [at, last] = [half(at), half(last)]
  // A complete old tree is itself a node of the new tree, and the path omits this node.
  const nodes = at === 0 ? [oldRoot, ...path] : path
  const [first, ...others] = nodes
  if (first === undefined) return false
  let [old, extendedTrees] = [first, first]
  for (const node of others) {
    if (last === 0) return false
    if (at % 2 === 1 || at === last) {
      old = nodeHash(node, old)
      extendedTrees = nodeHash(node, extendedTrees)
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)]
    } else {
      extendedTrees = nodeHash(extendedTrees, node)
    }
    ;[at, last] = [half(at), half(last)]
  }
  return last === 0 && old.equals(oldRoot) && extendedTrees.equals(newRoot)
}
