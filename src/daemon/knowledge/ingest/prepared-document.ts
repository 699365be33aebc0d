import { deserialize, serialize } from 'node:v8'
import { pageCountOf } from '../indexes/postings.ts'
import { mergePages, type SegmentTerms, type TitledPassages, termsOf } from '../indexes/segment.ts'
import type { Passage } from './chunking.ts'

/**
 * A document that only has to be stored: its passages in batches (`unpackPassages`), and the parts of the inverted index
 * that they make. All of it is bytes, which go from one thread to another without being copied and are no work for the
 * garbage collector.
 */
export type PreparedDocument = {
  title: string
  passageCount: number
  batches: Uint8Array[]
  segments: PackedSegment[]
}

/** Passages from position `first` on. Page n of the segment ends at `ends[n]` of `pages`. */
export type PackedSegment = { first: number; lengths: Uint16Array; pages: Uint8Array; ends: Uint32Array }

/** What one transaction writes. SQLite has one writer, and every chat's bill waits its turn behind it. */
const PASSAGES_PER_BATCH = 50
/** As large as merging makes them, so that those of a large document are never merged. */
const PASSAGES_PER_SEGMENT = 4_096

/** Documents of at most so many passages are stored together, in one segment: a commit costs more than they do. */
export const SMALL_PASSAGES = PASSAGES_PER_BATCH

/** Takes passages, whose positions follow each other, apart into terms. A document without a title is called by its `source`. */
export function prepareDocument(title: string, source: string, passages: Iterable<Passage>): PreparedDocument {
  const spoken = spokenTitle(title, source)
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
    if (first !== undefined) segments.push(packSegment(first, termsOf([{ title: spoken, passages: segment }])))
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

/** Several documents of which the small ones share a segment. */
export type Preparation = {
  /** As `prepareDocument`; one of at most SMALL_PASSAGES comes without segments of its own. */
  add(title: string, source: string, passages: Iterable<Passage>): PreparedDocument
  /** The passages of all small documents one behind the other, counted from 0; undefined when there were none. */
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
      small.push({ title: spokenTitle(title, source), passages: head })
      return { title: title || source, passageCount: head.length, batches: [packPassages(head)], segments: [] }
    },
    together: () => (small.length === 0 ? undefined : packSegment(0, termsOf(small))),
  }
}

function* joined(head: readonly Passage[], rest: Iterator<Passage>): Generator<Passage> {
  yield* head
  for (let next = rest.next(); !next.done; next = rest.next()) yield next.value
}

/** The name of a file says less of what is in it than it looks. */
const spokenTitle = (title: string, source: string): string => (title === source ? '' : title)

/** The bytes that serialize() returns may be a part of a larger buffer, which could not be handed on. */
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

/** The pages of a segment, page n at n. */
export const pagesOf = ({ pages, ends }: PackedSegment): Uint8Array[] =>
  Array.from(ends, (end, at) => pages.subarray(at === 0 ? 0 : ends[at - 1], end))

/** One segment in the place of several, whose passages it holds one behind the other, counted from 0. */
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

/** What can be handed to another thread instead of being copied. */
export const buffersOf = (segments: readonly PackedSegment[], batches: readonly Uint8Array[] = []): ArrayBufferLike[] =>
  [...segments.flatMap(({ lengths, pages, ends }) => [lengths, pages, ends]), ...batches].map(({ buffer }) => buffer)
