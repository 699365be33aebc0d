import { LRUCache } from 'lru-cache'
import {
  decodePassages,
  type PublishedSegment,
  type Segment,
  type SegmentPassages,
  type StoredPassages,
} from './segment.ts'

/** The maximum size of the cache of index terms. */
const SEARCH_CACHE_BYTES = 67_108_864
/** The number of pages or segments per read. It limits how long one read occupies the thread that reads the store. */
const READ_TOGETHER = 64

/** Reads the stored segments of one index. All reads of a search see one snapshot. */
export type SegmentSource = {
  published: readonly PublishedSegment[]
  /** Returns the encoded passages of these segments, in the order of `ids`. Empty if a segment does not exist. */
  passages(ids: readonly string[]): Promise<readonly (StoredPassages | undefined)[]>
  /** Returns the pages with these names, in the order of `names`. Empty if a page has no terms. */
  pages(names: readonly string[]): Promise<readonly Uint8Array[]>
}

/** The segments of one index, as a ranking needs them. */
export type SegmentReader = {
  segments(): Promise<Segment[]>
  /** Returns the pages with these names, by name. */
  pages(names: readonly string[]): Promise<ReadonlyMap<string, Uint8Array>>
}

/** Returns a reader that reads from the source only what the cache does not have. */
export type SegmentCache = (source: SegmentSource) => SegmentReader

/** The approximate memory overhead of a cache entry, in addition to the bytes that it stores. */
const ENTRY_BYTES = 200

/**
 * Caches the most recently read segments and pages. Passages and pages of a published segment never change, and ids are
 * never reused, so cache entries never expire. The list of segments is not cached.
 */
export function createSegmentCache(bytes = SEARCH_CACHE_BYTES): SegmentCache {
  const passagesOf = new LRUCache<string, SegmentPassages>({
    maxSize: bytes / 8,
    sizeCalculation: ({ ids, lengths }) => ENTRY_BYTES + ids.byteLength + lengths.byteLength,
  })
  const pageNamed = new LRUCache<string, Uint8Array>({
    maxSize: (bytes * 7) / 8,
    sizeCalculation: (page) => ENTRY_BYTES + page.byteLength,
  })

  return (source) => ({
    async segments() {
      const ids = source.published.map(({ id }) => id)
      const passages = await throughCache(passagesOf, ids, async (unknown) =>
        (await source.passages(unknown)).map((stored) => stored && decodePassages(stored)),
      )
      return source.published.flatMap((segment) => {
        const ofSegment = passages.get(segment.id)
        return ofSegment === undefined ? [] : [{ ...segment, ...ofSegment }]
      })
    },
    pages: (names) => throughCache(pageNamed, names, source.pages),
  })
}

/** Returns the values of these keys. Reads the values that the cache does not have, and caches them. */
async function throughCache<Value extends object>(
  cache: LRUCache<string, Value>,
  keys: readonly string[],
  read: (keys: readonly string[]) => Promise<readonly (Value | undefined)[]>,
): Promise<Map<string, Value>> {
  const values = new Map<string, Value>()
  const unknown: string[] = []
  for (const key of keys) {
    const known = cache.get(key)
    if (known === undefined) unknown.push(key)
    else values.set(key, known)
  }
  for (let at = 0; at < unknown.length; at += READ_TOGETHER) {
    const batch = unknown.slice(at, at + READ_TOGETHER)
    const found = await read(batch)
    for (const [position, key] of batch.entries()) {
      const value = found[position]
      if (value === undefined) continue
      cache.set(key, value)
      values.set(key, value)
    }
  }
  return values
}
