import { hash } from 'node:crypto'

// RFC 6962, section 2.1. All hashes are Buffers of 32 bytes. Sizes go beyond 2^31, so there are no bit operations on them.

// One buffer each, used again: nothing awaits between filling and hashing.
const leafInput = Buffer.alloc(33, 0)
const nodeInput = Buffer.alloc(65, 1)

const sha256 = (bytes: Buffer | string): Buffer => Buffer.from(hash('sha256', bytes, 'hex'), 'hex')

/** The leaf of an entry: SHA-256 of a zero byte and the 32 bytes of its hash. */
export function leafHash(entryHashHex: string): Buffer {
  fillLeaf(entryHashHex)
  return sha256(leafInput)
}

function fillLeaf(entryHashHex: string): void {
  if (leafInput.write(entryHashHex, 1, 'hex') !== 32 || entryHashHex.length !== 64) {
    throw new TypeError('an entry hash is 64 hex digits')
  }
}

/** The node over two others: SHA-256 of a one byte and both hashes. */
export function nodeHash(left: Buffer, right: Buffer): Buffer {
  left.copy(nodeInput, 1)
  right.copy(nodeInput, 33)
  return sha256(nodeInput)
}

/** The root over these leaves. A node without a neighbour moves up as it is; without leaves it is SHA-256 of nothing. */
export function treeRoot(leaves: readonly Buffer[]): Buffer {
  let level = leaves
  while (level.length > 1) level = parents(level)
  return level[0] ?? sha256('')
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
 * The root over entries, by their hashes; all of it in hex. As `treeRoot` of their leaves, for whoever signs commits: one
 * Buffer for the whole tree, where objects for each hash would cost a request more than the hashing. `binary` texts, one
 * character for each byte, are the cheapest way from one call to the next.
 */
export function rootOfEntries(entryHashes: readonly string[]): string {
  if (entryHashes.length === 0) return hash('sha256', '', 'hex')
  const level = Buffer.allocUnsafe(32 * entryHashes.length)
  for (const [at, entryHash] of entryHashes.entries()) {
    fillLeaf(entryHash)
    level.write(hash('sha256', leafInput, 'binary'), 32 * at, 'binary')
  }
  for (let size = entryHashes.length; size > 1; size = Math.ceil(size / 2)) {
    for (let at = 0; at < size; at += 2) {
      if (at + 1 === size) level.copy(level, 16 * at, 32 * at, 32 * at + 32)
      else {
        level.copy(nodeInput, 1, 32 * at, 32 * at + 64)
        level.write(hash('sha256', nodeInput, 'binary'), 16 * at, 'binary')
      }
    }
  }
  return level.toString('hex', 0, 32)
}

/** What proves that the leaf at `index` is one of these: the neighbours on the way up. Throws RangeError for no such leaf. */
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

/** The root that a path leads to (RFC 9162, 2.1.3.2); undefined for a path that is too short or too long for the tree. */
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

export type ConsistencyClaim = {
  oldSize: number
  oldRoot: Buffer
  newSize: number
  newRoot: Buffer
  path: readonly Buffer[]
}

/**
 * Whether the path proves that the new tree begins with the old one (RFC 9162, 2.1.4.2). Trees of one size, and the empty
 * tree beside any other, need an empty path.
 */
export function verifyConsistency({ oldSize, oldRoot, newSize, newRoot, path }: ConsistencyClaim): boolean {
  if (!isSize(oldSize) || !isSize(newSize) || oldSize > newSize) return false
  if (oldSize === 0) return path.length === 0 && oldRoot.equals(treeRoot([]))
  if (oldSize === newSize) return path.length === 0 && oldRoot.equals(newRoot)
  let [at, last] = [oldSize - 1, newSize - 1]
  while (at % 2 === 1) [at, last] = [half(at), half(last)]
  // An old tree that is complete is a node of the new one, and is not repeated in the path.
  const nodes = at === 0 ? [oldRoot, ...path] : path
  const [first, ...others] = nodes
  if (first === undefined) return false
  let [old, grown] = [first, first]
  for (const node of others) {
    if (last === 0) return false
    if (at % 2 === 1 || at === last) {
      old = nodeHash(node, old)
      grown = nodeHash(node, grown)
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)]
    } else {
      grown = nodeHash(grown, node)
    }
    ;[at, last] = [half(at), half(last)]
  }
  return last === 0 && old.equals(oldRoot) && grown.equals(newRoot)
}
