import { deserialize, serialize } from 'node:v8'
import { pageCountOf } from '../indexes/postings.ts'
import { mergePages, type SegmentTerms, type TitledPassages, termsOf } from '../indexes/segment.ts'
import type { Passage } from './chunking.ts'

/**
 * A document that is ready to be stored: its passages in batches (`unpackPassages`), and the segments of its inverted
 * index. Both are stored as bytes. Bytes can be transferred between threads without a copy, and add little work for the
 * garbage collector.
 */
export type PreparedDocument = {
  title: string
  passageCount: number
  batches: Uint8Array[]
  segments: PackedSegment[]
}

/** A segment of consecutive passages. The first passage is at position `first`. Page n ends at `ends[n]` of `pages`. */
export type PackedSegment = { first: number; lengths: Uint16Array; pages: Uint8Array; ends: Uint32Array }

/**
 * Passages per transaction. The number is small, because SQLite has a single writer: the billing of every chat waits
 * until the transaction ends.
 */
const PASSAGES_PER_BATCH = 50
/**
 * Passages per segment. This is the maximum size that merging creates, so full segments of a large document are never
 * merged.
 */
const PASSAGES_PER_SEGMENT = 4_096

/** The maximum number of passages of one document: 1.5 times the number of passages in 50 MB of prose. */
export const DOCUMENT_PASSAGES = 100_000

/**
 * The maximum number of passages of a small document. Small documents share one segment, because a commit costs more
 * than writing their content.
 */
export const SMALL_PASSAGES = PASSAGES_PER_BATCH

/** Prepares a document from consecutive passages. If a document has no title, its `source` is used as the title. */
export function prepareDocument(title: string, source: string, passages: Iterable<Passage>): PreparedDocument {
  const indexedTitle = titleToIndex(title, source)
  const batches: Uint8Array[] = []
  const segments: PackedSegment[] = []
  let batch: Passage[] = []
  let segment: Passage[] = []
  let passageCount = 0
  const endBatch = () => {
    if (batch.length > 0) batches.push(packPassages(batch))
    batch = []
  }
  const endSegment = () => {
    const first = segment[0]?.position
    if (first !== undefined) segments.push(packSegment(first, termsOf([{ title: indexedTitle, passages: segment }])))
    segment = []
  }
  for (const passage of passages) {
    passageCount++
    batch.push(passage)
    segment.push(passage)
    if (batch.length === PASSAGES_PER_BATCH) endBatch()
    if (segment.length === PASSAGES_PER_SEGMENT) endSegment()
  }
  endBatch()
  endSegment()
  return { title: title || source, passageCount, batches, segments }
}

/** Prepares several documents. The small documents share a segment. */
export type Preparation = {
  /** Same as `prepareDocument`. A document of at most SMALL_PASSAGES has no separate segments. */
  add(title: string, source: string, passages: Iterable<Passage>): PreparedDocument
  /**
   * Returns one segment with the passages of all small documents in sequence, counted from 0. Returns undefined if
   * there are no small documents.
   */
  together(): PackedSegment | undefined
}

export function beginPreparation(): Preparation {
  const small: TitledPassages[] = []
  return {
    add(title, source, passages) {
      const rest = passages[Symbol.iterator]()
      const head: Passage[] = []
      for (let next = rest.next(); !next.done; next = rest.next()) {
        head.push(next.value)
        if (head.length > SMALL_PASSAGES) return prepareDocument(title, source, joined(head, rest))
      }
      small.push({ title: titleToIndex(title, source), passages: head })
      return { title: title || source, passageCount: head.length, batches: [packPassages(head)], segments: [] }
    },
    together: () => (small.length === 0 ? undefined : packSegment(0, termsOf(small))),
  }
}

function* joined(head: readonly Passage[], rest: Iterator<Passage>): Generator<Passage> {
  yield* head
  for (let next = rest.next(); !next.done; next = rest.next()) yield next.value
}

/** If the title is only the file name, it is not indexed, because a file name describes the content poorly. */
const titleToIndex = (title: string, source: string): string => (title === source ? '' : title)

/**
 * The bytes are copied, because serialize() may return a part of a larger buffer. A part of a buffer cannot be
 * transferred.
 */
const packPassages = (passages: readonly Passage[]): Uint8Array => new Uint8Array(serialize(passages))

export const unpackPassages = (batch: Uint8Array): Passage[] => deserialize(batch)

function packSegment(first: number, { lengths, pages }: SegmentTerms): PackedSegment {
  const bytes = new Uint8Array(pages.reduce((sum, page) => sum + page.length, 0))
  const ends = new Uint32Array(pages.length)
  let end = 0
  for (const [at, page] of pages.entries()) {
    bytes.set(page, end)
    end += page.length
    ends[at] = end
  }
  return { first, lengths, pages: bytes, ends }
}

/** Returns the pages of a segment. Page n is at index n. */
export const pagesOf = ({ pages, ends }: PackedSegment): Uint8Array[] =>
  Array.from(ends, (end, at) => pages.subarray(at === 0 ? 0 : ends[at - 1], end))

/** Joins segments into one segment that contains all their passages in sequence, counted from 0. */
export function joinSegments(segments: readonly PackedSegment[]): PackedSegment {
  let count = 0
  const ordinals = segments.map(({ lengths }) => {
    const renumbered = Int32Array.from(lengths, (_, ordinal) => count + ordinal)
    count += lengths.length
    return renumbered
  })
  const lengths = new Uint16Array(count)
  for (const [at, segment] of segments.entries()) lengths.set(segment.lengths, ordinals[at]?.[0])
  const pageCount = pageCountOf(count)
  const merged = mergePages(segments.map(pagesOf), ordinals, pageCount)
  const pages = Array.from({ length: pageCount }, (_, page) => merged.get(page) ?? new Uint8Array())
  return packSegment(0, { lengths, pages })
}

/** Returns the buffers that can be transferred to another thread without a copy. */
export const buffersOf = (segments: readonly PackedSegment[], batches: readonly Uint8Array[] = []): ArrayBufferLike[] =>
  [...segments.flatMap(({ lengths, pages, ends }) => [lengths, pages, ends]), ...batches].map(({ buffer }) => buffer)
