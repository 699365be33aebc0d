import { LRUCache } from 'lru-cache'
import { SEARCH_CACHE_BYTES } from '../../../shared/spec-limits.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { IndexKey } from './document-types.ts'
import type { SegmentPassages } from './segment.ts'
import { findPages, findPublished, findSegmentPassages, findSegments, type Segment } from './segment-store.ts'

/** How a search reads the segments of an index: see `findSegments` and `findPages`. */
export type SegmentReader = {
  segments(tx: Db, index: IndexKey): Promise<Segment[]>
  pages(tx: Db, tenantId: string, names: readonly string[]): Promise<Map<string, Uint8Array>>
}

/** Reads all of it each time. */
export const storedSegments: SegmentReader = { segments: findSegments, pages: findPages }

/**
 * How the searches of a daemon read segments. From PostgreSQL every page comes over a connection, as hexadecimal text, so they
 * are kept (measured: 24 ms of CPU for a search of 100,000 passages, 15 with them); SQLite keeps them itself.
 */
export const segmentReaderFor = (db: Db): SegmentReader =>
  engineOf(db).name === 'sqlite' ? storedSegments : createSegmentCache()

/** What an entry takes besides its bytes, about. */
const ENTRY_BYTES = 200
const NO_TERMS = new Uint8Array()

/**
 * Keeps what was read last. Neither passages nor pages of a published segment ever change, and another one has another id, so
 * nothing here is out of date; which segments there are is asked each time.
 */
export function createSegmentCache(bytes = SEARCH_CACHE_BYTES): SegmentReader {
  const passagesOf = new LRUCache<string, SegmentPassages>({
    maxSize: bytes / 8,
    sizeCalculation: ({ ids, lengths }) => ENTRY_BYTES + ids.byteLength + lengths.byteLength,
  })
  const pageNamed = new LRUCache<string, Uint8Array>({
    maxSize: (bytes * 7) / 8,
    sizeCalculation: (page) => ENTRY_BYTES + page.byteLength,
  })

  return {
    async segments(tx, index) {
      const published = await findPublished(tx, index)
      const passages = new Map(published.map(({ id }) => [id, passagesOf.get(id)]))
      const unknown = published.flatMap(({ id }) => (passages.get(id) === undefined ? [id] : []))
      for (const [id, found] of await findSegmentPassages(tx, index.tenantId, unknown)) {
        passagesOf.set(id, found)
        passages.set(id, found)
      }
      return published.flatMap((segment) => {
        const ofSegment = passages.get(segment.id)
        return ofSegment === undefined ? [] : [{ ...segment, ...ofSegment }]
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
