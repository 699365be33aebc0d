import { LRUCache } from 'lru-cache'
import { SEARCH_CACHE_BYTES } from '../../shared/spec-limits.ts'
import type { Db } from '../db/database.ts'
import type { IndexKey } from './document-store.ts'
import type { SegmentPassages } from './segment.ts'
import { findPages, findPublished, findSegmentPassages, type Segment } from './segment-store.ts'

/**
 * What searches read again and again of published segments, kept in memory. Neither passages nor pages of a segment ever change,
 * and another one has another id, so nothing here is out of date; which segments there are is asked each time.
 */
export type SegmentCache = {
  /** As `findSegments`. */
  segments(tx: Db, index: IndexKey): Promise<Segment[]>
  /** As `findPages`. */
  pages(tx: Db, tenantId: string, names: readonly string[]): Promise<Map<string, Uint8Array>>
}

/** What an entry takes besides its bytes, about. */
const ENTRY_BYTES = 200
const NO_TERMS = new Uint8Array()

export function createSegmentCache(bytes = SEARCH_CACHE_BYTES): SegmentCache {
  const passagesOf = new LRUCache<string, SegmentPassages>({
    maxSize: bytes / 4,
    sizeCalculation: ({ ids, lengths }) => ENTRY_BYTES + ids.byteLength + lengths.byteLength,
  })
  const pageNamed = new LRUCache<string, Uint8Array>({
    maxSize: (bytes * 3) / 4,
    sizeCalculation: (page) => ENTRY_BYTES + page.byteLength,
  })

  return {
    async segments(tx, index) {
      const published = await findPublished(tx, index)
      const unknown = published.filter(({ id }) => !passagesOf.has(id)).map(({ id }) => id)
      const found = await findSegmentPassages(tx, index.tenantId, unknown)
      for (const [id, passages] of found) passagesOf.set(id, passages)
      return published.flatMap(({ id, pageCount }) => {
        const passages = found.get(id) ?? passagesOf.get(id)
        return passages === undefined ? [] : [{ id, pageCount, ...passages }]
      })
    },

    async pages(tx, tenantId, names) {
      const pages = new Map<string, Uint8Array>()
      const unknown: string[] = []
      for (const name of names) {
        const known = pageNamed.get(name)
        if (known === undefined) unknown.push(name)
        else pages.set(name, known)
      }
      if (unknown.length === 0) return pages
      const found = await findPages(tx, tenantId, unknown)
      for (const name of unknown) {
        const page = found.get(name) ?? NO_TERMS
        pageNamed.set(name, page)
        pages.set(name, page)
      }
      return pages
    },
  }
}
