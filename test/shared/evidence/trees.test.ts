import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { rootOfEntries } from '../../../src/shared/evidence/commit.ts'
import { leafHash } from '../../../src/shared/evidence/entry.ts'
import { Frontier } from '../../../src/shared/evidence/frontier.ts'
import {
  inclusionPath,
  nodeHash,
  rootOfInclusion,
  treeRoot,
  verifyConsistency,
} from '../../../src/shared/evidence/merkle.ts'
import { consistencyProof, inclusionProof, rootOfSize } from '../../../src/shared/evidence/subtrees.ts'

// RFC 6962, section 2.1, implemented literally and with another hash function than the code.
const sha256 = (...parts: (Buffer | number[])[]) =>
  createHash('sha256')
    .update(Buffer.concat(parts.map((part) => Buffer.from(part))))
    .digest()
const split = (size: number): number => (size <= 2 ? 1 : 2 * split(Math.ceil(size / 2)))
const mth = (leaves: Buffer[]): Buffer => {
  if (leaves.length === 0) return sha256()
  if (leaves.length === 1) return leaves[0]!
  const k = split(leaves.length)
  return sha256([1], mth(leaves.slice(0, k)), mth(leaves.slice(k)))
}
const pathOf = (m: number, leaves: Buffer[]): Buffer[] => {
  if (leaves.length === 1) return []
  const k = split(leaves.length)
  return m < k
    ? [...pathOf(m, leaves.slice(0, k)), mth(leaves.slice(k))]
    : [...pathOf(m - k, leaves.slice(k)), mth(leaves.slice(0, k))]
}
const subproof = (m: number, leaves: Buffer[], isWhole: boolean): Buffer[] => {
  if (m === leaves.length) return isWhole ? [] : [mth(leaves)]
  const k = split(leaves.length)
  return m <= k
    ? [...subproof(m, leaves.slice(0, k), isWhole), mth(leaves.slice(k))]
    : [...subproof(m - k, leaves.slice(k), false), mth(leaves.slice(0, k))]
}

const ENTRIES = Array.from({ length: 301 }, (_, at) => createHash('sha256').update(`${at}`).digest('hex'))
const LEAVES = ENTRIES.map((entry) => Buffer.from(entry, 'hex'))
const first = (size: number): Buffer[] => LEAVES.slice(0, size)
const read = (level: number, index: number): Buffer => mth(LEAVES.slice(index * 2 ** level, (index + 1) * 2 ** level))
const hex = (nodes: readonly Buffer[]): string[] => nodes.map((node) => node.toString('hex'))

/** A tree and a position in it. */
const place = fc.integer({ min: 1, max: 300 }).chain((size) => fc.tuple(fc.constant(size), fc.nat(size - 1)))
/** A tree and an earlier, non-empty one. */
const growth = fc
  .integer({ min: 1, max: 300 })
  .chain((to) => fc.tuple(fc.integer({ min: 1, max: to }), fc.constant(to)))

describe('known trees of certificate transparency', () => {
  const INPUTS = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f']
  const ROOTS = [
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
    'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
    '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
    'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
    '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
  ]
  const leaves = INPUTS.map((input) => sha256([0], Buffer.from(input, 'hex')))

  test.each(ROOTS.map((root, size) => [size, root]))('%i leaves have the published root', (size, root) => {
    expect(treeRoot(Buffer.concat(leaves.slice(0, size))).toString('hex')).toBe(root)
  })

  test('a published consistency path is valid, and for no other tree', () => {
    const path = [
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    ].map((node) => Buffer.from(node, 'hex'))
    const holds = (newSize: number) =>
      verifyConsistency({
        oldSize: 2,
        oldRoot: Buffer.from(ROOTS[2]!, 'hex'),
        newSize,
        newRoot: Buffer.from(ROOTS[newSize]!, 'hex'),
        path,
      })
    expect([4, 5, 6].map(holds)).toEqual([false, true, false])
  })
})

test('a leaf and a node differ in their first byte', () => {
  const [a, b] = [sha256([1]), sha256([2])]
  expect(leafHash(['one', 'né'])).toEqual(sha256([0], Buffer.from('3:one,3:né,')).toString('hex'))
  expect(nodeHash(a, b)).toEqual(sha256([1], a, b))
  expect(() => nodeHash(a, b.subarray(1))).toThrow(TypeError)
  expect(() => treeRoot(Buffer.concat([a, b.subarray(1)]))).toThrow(TypeError)
})

test('every size up to 300 has the defined root, from a list, a frontier and subtrees', async () => {
  const frontier = new Frontier()
  for (let size = 0; size <= 300; size += 1) {
    const root = mth(first(size))
    expect(treeRoot(Buffer.concat(first(size)))).toEqual(root)
    expect(rootOfEntries(ENTRIES.slice(0, size).join(''))).toBe(root.toString('hex'))
    expect(frontier.root()).toEqual(root)
    expect(await rootOfSize(size, read)).toEqual(root)
    frontier.append(LEAVES[size]!)
    expect(frontier.size).toBe(size + 1)
  }
})

test('a frontier reports each complete subtree of 256 leaves and more once, for any batches of leaves', () => {
  const many = Array.from({ length: 1_100 }, (_, at) => sha256([at % 256, at >> 8]))
  const all = [0, 1, 2, 3].map((index) => `8/${index}`).concat('9/0', '9/1', '10/0')
  const cuts = fc.array(fc.integer({ min: 1, max: 700 }), { maxLength: 5 })
  fc.assert(
    fc.property(cuts, (sizes) => {
      const frontier = new Frontier()
      const told: string[] = []
      for (const size of [...sizes, many.length]) {
        const leaves = Buffer.concat(many.slice(frontier.size, frontier.size + size))
        frontier.append(leaves, (level, index, root) => {
          expect(root).toEqual(mth(many.slice(index * 2 ** level, (index + 1) * 2 ** level)))
          told.push(`${level}/${index}`)
        })
      }
      expect(frontier.size).toBe(many.length)
      expect(frontier.root()).toEqual(mth(many))
      expect(told.sort()).toEqual(all.toSorted())
    }),
    { numRuns: 30 },
  )
})

test('a frontier continues from the subtrees of any size, and from no other number of them', () => {
  for (let size = 0; size <= 70; size += 1) {
    const roots: Buffer[] = []
    let from = 0
    for (let level = 6; level >= 0; level -= 1) {
      if ((size & (1 << level)) === 0) continue
      roots.push(read(level, from / 2 ** level))
      from += 2 ** level
    }
    const frontier = new Frontier(size, roots)
    expect(frontier.root()).toEqual(mth(first(size)))
    frontier.append(LEAVES[size]!)
    expect(frontier.root()).toEqual(mth(first(size + 1)))
    expect(() => new Frontier(size, [...roots, LEAVES[0]!])).toThrow(RangeError)
  }
})

test('the part of a frontier that fills complete subtrees leads to the same roots, independent of the rest', () => {
  fc.assert(
    fc.property(fc.nat(300), fc.nat(8), (size, level) => {
      const frontier = new Frontier()
      frontier.append(Buffer.concat(first(size)))
      const part = frontier.wholePart(level)
      expect(part.size).toBe(size - (size % 2 ** level))
      expect(part.root()).toEqual(mth(first(part.size)))
      frontier.append(LEAVES[0]!)
      part.append(Buffer.concat(LEAVES.slice(part.size, size)))
      expect(part.root()).toEqual(mth(first(size)))
    }),
    { numRuns: 100 },
  )
})

describe('inclusion', () => {
  test('the path follows the definition, from leaves and from subtrees, and leads to the root', async () => {
    await fc.assert(
      fc.asyncProperty(place, async ([size, index]) => {
        const path = pathOf(index, first(size))
        expect(hex(inclusionPath(first(size), index))).toEqual(hex(path))
        expect(hex(await inclusionProof(index, size, read))).toEqual(hex(path))
        expect(rootOfInclusion(LEAVES[index]!, index, size, path)).toEqual(mth(first(size)))
      }),
      { numRuns: 300 },
    )
  })

  test('no other leaf, index, or path leads to the root', () => {
    fc.assert(
      fc.property(place, fc.nat(), fc.nat(255), ([size, index], pick, bit) => {
        const root = mth(first(size))
        const path = inclusionPath(first(size), index)
        const leaf = LEAVES[index]!
        const leads = (...args: Parameters<typeof rootOfInclusion>) => rootOfInclusion(...args)?.equals(root) === true
        expect(leads(LEAVES[300]!, index, size, path)).toBe(false)
        for (let other = 0; other < size; other += 1) expect(leads(leaf, other, size, path)).toBe(other === index)
        expect(leads(leaf, index, size, [...path, root])).toBe(false)
        if (path.length === 0) return
        expect(leads(leaf, index, size, path.slice(1))).toBe(false)
        const at = pick % path.length
        expect(leads(leaf, index, size, path.with(at, flipped(path[at]!, bit)))).toBe(false)
      }),
      { numRuns: 100 },
    )
  })

  test('a leaf outside the tree has no path', async () => {
    for (const index of [-1, 3, 0.5, Number.NaN]) {
      expect(() => inclusionPath(first(3), index)).toThrow(RangeError)
      await expect(inclusionProof(index, 3, read)).rejects.toThrow(RangeError)
      expect(rootOfInclusion(LEAVES[0]!, index, 3, [])).toBeUndefined()
    }
  })
})

describe('consistency', () => {
  const claim = (oldSize: number, newSize: number, path: readonly Buffer[]) => ({
    oldSize,
    oldRoot: mth(first(oldSize)),
    newSize,
    newRoot: mth(first(newSize)),
    path,
  })

  test('the path follows the definition, and is valid', async () => {
    await fc.assert(
      fc.asyncProperty(growth, async ([from, to]) => {
        const path = await consistencyProof(from, to, read)
        expect(hex(path)).toEqual(hex(subproof(from, first(to), true)))
        expect(verifyConsistency(claim(from, to, path))).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  test('all pairs of sizes up to 40 are valid, also the empty tree before any other', async () => {
    for (let to = 0; to <= 40; to += 1) {
      for (let from = 0; from <= to; from += 1) {
        expect(verifyConsistency(claim(from, to, await consistencyProof(from, to, read)))).toBe(true)
      }
    }
  })

  test('other roots, sizes, and shorter, longer or changed paths are invalid', async () => {
    await fc.assert(
      fc.asyncProperty(growth, fc.nat(), fc.nat(255), async ([from, to], pick, bit) => {
        const path = await consistencyProof(from, to, read)
        const good = claim(from, to, path)
        const bad = [
          { ...good, oldRoot: flipped(good.oldRoot, bit) },
          { ...good, newRoot: flipped(good.newRoot, bit) },
          { ...good, path: [...path, good.newRoot] },
          { ...good, oldSize: to + 1 },
          ...(path.length === 0
            ? []
            : [
                { ...good, path: path.slice(1) },
                { ...good, path: path.slice(0, -1) },
                { ...good, path: path.with(pick % path.length, flipped(path[pick % path.length]!, bit)) },
              ]),
        ]
        for (const claimed of bad) expect(verifyConsistency(claimed)).toBe(false)
      }),
      { numRuns: 200 },
    )
  })

  test('a smaller tree is rejected', async () => {
    await expect(consistencyProof(3, 2, read)).rejects.toThrow(RangeError)
    await expect(consistencyProof(-1, 2, read)).rejects.toThrow(RangeError)
    await expect(consistencyProof(1, Number.NaN, read)).rejects.toThrow(RangeError)
    expect(verifyConsistency(claim(3, 2, []))).toBe(false)
  })
})

test('a proof in a tree of 2^50 leaves reads as many subtrees as the tree has levels', async () => {
  const size = 2 ** 50 - 1
  let reads = 0
  const count = (level: number, index: number): Buffer => {
    reads += 1
    expect((index + 1) * 2 ** level).toBeLessThanOrEqual(size)
    return sha256([level])
  }
  const path = await inclusionProof(size - 1, size, count)
  expect(path).toHaveLength(49)
  expect(reads).toBe(49)
})

function flipped(hash: Buffer, bit: number): Buffer {
  const copy = Buffer.from(hash)
  copy[bit >> 3]! ^= 1 << (bit & 7)
  return copy
}
