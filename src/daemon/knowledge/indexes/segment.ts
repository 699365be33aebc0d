import { type IndexTerm, indexTermsOf } from '../../platform/text/terms.ts'
import type { Passage } from '../ingest/chunking.ts'
import { ByteReader, ByteWriter, decodePage, encodePage, type Postings, pageCountOf, pageOf } from './postings.ts'

/** A range of consecutive passage ids. */
export type Run = { first: number; count: number }

/** A segment's passages by ordinal: the id and length (number of tokens) of each passage. */
export type SegmentPassages = { ids: Float64Array; lengths: Uint16Array }

/** A segment's passages as they are stored: see `encodeIds` and `encodeLengths`. */
export type StoredPassages = { passages: Uint8Array; lengths: Uint8Array }

/** A segment that searches read, without its passages. */
export type PublishedSegment = { id: string; pageCount: number }

export type Segment = PublishedSegment & SegmentPassages

/**
 * The terms of a segment's passages: the length (number of tokens) of each passage, and the pages (see postings.ts).
 */
export type SegmentTerms = { lengths: Uint16Array; pages: Uint8Array[] }

/** The number of body occurrences that count as much as one occurrence in a heading. */
const HEADING_WEIGHT = 2
const LENGTH_MAX = 0xffff

type PassageText = Pick<Passage, 'headings' | 'body'>

/** Passages of one document. `title` is indexed if the headings do not include it. */
export type TitledPassages = { title: string; passages: readonly PassageText[] }

/** Returns the terms of the documents' passages, in sequence. */
export function termsOf(documents: readonly TitledPassages[]): SegmentTerms {
  const terms = new Map<string, Postings>()
  const lengths: number[] = []
  for (const { title, passages } of documents) {
    const titleTerms = indexTermsOf(title)
    for (const { headings, body } of passages) {
      const frequencies = new Map<string, number>()
      const fields: [IndexTerm[], number][] = [
        [indexTermsOf(body), 1],
        [indexTermsOf(headings), HEADING_WEIGHT],
      ]
      if (!headings.includes(title)) fields.push([titleTerms, 1])
      let length = 0
      for (const [indexTerms, weight] of fields) {
        length += indexTerms.length
        for (const { term, further } of indexTerms) {
          frequencies.set(term, (frequencies.get(term) ?? 0) + weight)
          for (const { term } of further) frequencies.set(term, (frequencies.get(term) ?? 0) + weight)
        }
      }
      const ordinal = lengths.push(Math.min(length, LENGTH_MAX)) - 1
      for (const [term, frequency] of frequencies) add(terms, term, ordinal, frequency)
    }
  }
  return { lengths: Uint16Array.from(lengths), pages: toPages(terms, pageCountOf(lengths.length)) }
}

function add(terms: Map<string, Postings>, term: string, ordinal: number, frequency: number): void {
  const postings = terms.get(term)
  if (postings === undefined) terms.set(term, [ordinal, frequency])
  else postings.push(ordinal, frequency)
}

function toPages(terms: Map<string, Postings>, pageCount: number): Uint8Array[] {
  const pages: [string, Postings][][] = Array.from({ length: pageCount }, () => [])
  for (const entry of terms) pages[pageOf(entry[0], pageCount)]?.push(entry)
  return pages.map(encodePage)
}

/** Decodes runs that are encoded as `first count,first count…`, in any order. Returns them in ascending order. */
export const decodeRuns = (encoded: string): Run[] =>
  (encoded === '' ? [] : encoded.split(','))
    .map((run) => {
      const [first, count] = run.split(' ').map(Number) as [number, number]
      return { first, count }
    })
    .sort((one, other) => one.first - other.first)

/**
 * Returns a mask with 1 for each deleted passage of a segment. Returns undefined if no passage is deleted. `deleted`
 * must be in ascending order.
 */
export function deletedOrdinals({ ids }: SegmentPassages, deleted: readonly Run[]): Uint8Array | undefined {
  if (deleted.length === 0) return undefined
  let mask: Uint8Array | undefined
  // `next` is kept from one id to the next, because consecutive ids are usually in the same run or between the same two
  // runs.
  let next = 0
  for (let ordinal = 0; ordinal < ids.length; ordinal++) {
    const id = ids[ordinal] as number
    if (id >= endOf(deleted[next]) || (next > 0 && id < endOf(deleted[next - 1]))) next = firstAfterEnd(deleted, id)
    const run = deleted[next]
    if (run === undefined || id < run.first) continue
    mask ??= new Uint8Array(ids.length)
    mask[ordinal] = 1
  }
  return mask
}

const endOf = (run: Run | undefined): number => (run ? run.first + run.count : Number.POSITIVE_INFINITY)

/** Returns the index of the first run that ends after `id`. */
function firstAfterEnd(runs: readonly Run[], id: number): number {
  let low = 0
  let high = runs.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (endOf(runs[middle]) > id) high = middle
    else low = middle + 1
  }
  return low
}

/** Maps ordinals of the source segments to ordinals of the merged segment. Deleted passages map to -1. */
export type Renumbering = { ordinals: Int32Array[]; passages: SegmentPassages }

/** Concatenates the passages of several segments, without deleted passages. `deleted` must be in ascending order. */
export function renumber(segments: readonly SegmentPassages[], deleted: readonly Run[]): Renumbering {
  const ids: number[] = []
  const lengths: number[] = []
  const ordinals = segments.map((segment) => {
    const mask = deletedOrdinals(segment, deleted)
    const renumbered = new Int32Array(segment.ids.length).fill(-1)
    for (let ordinal = 0; ordinal < segment.ids.length; ordinal++) {
      if (mask?.[ordinal]) continue
      renumbered[ordinal] = ids.length
      ids.push(segment.ids[ordinal] as number)
      lengths.push(segment.lengths[ordinal] as number)
    }
    return renumbered
  })
  return { ordinals, passages: { ids: Float64Array.from(ids), lengths: Uint16Array.from(lengths) } }
}

/**
 * Returns the pages of a merged segment for one slice of its sources. `pages[n]` contains all pages of the nth source
 * that belong to the slice. Terms that occur only in deleted passages are dropped.
 */
export function mergePages(
  pages: readonly (readonly Uint8Array[])[],
  ordinals: readonly Int32Array[],
  pageCount: number,
): Map<number, Uint8Array> {
  const merged = new Map<number, Map<string, Postings>>()
  for (const [source, ofSource] of pages.entries()) {
    const renumbered = ordinals[source] as Int32Array
    for (const page of ofSource) {
      for (const [term, postings] of decodePage(page)) {
        const number = pageOf(term, pageCount)
        const terms = merged.get(number) ?? new Map<string, Postings>()
        merged.set(number, terms)
        for (let at = 0; at < postings.length; at += 2) {
          const ordinal = renumbered[postings[at] as number] as number
          if (ordinal >= 0) add(terms, term, ordinal, postings[at + 1] as number)
        }
      }
    }
  }
  return new Map([...merged].map(([number, terms]) => [number, encodePage(terms)]))
}

/** Encodes ids for storage: the first id and the length of each run, as varints. */
export function encodeIds(ids: Float64Array): Uint8Array {
  const writer = new ByteWriter()
  for (let at = 0; at < ids.length; ) {
    const first = ids[at] as number
    let count = 1
    while (ids[at + count] === first + count) count++
    writer.varint(first)
    writer.varint(count)
    at += count
  }
  return writer.bytes()
}

/** @param passages the number of ids that are encoded */
export function decodeIds(bytes: Uint8Array, passages: number): Float64Array {
  const reader = new ByteReader(bytes)
  const ids = new Float64Array(passages)
  let at = 0
  while (!reader.isAtEnd()) {
    const first = reader.varint()
    const count = reader.varint()
    for (let offset = 0; offset < count; offset++) ids[at++] = first + offset
  }
  return ids
}

/** Encodes lengths as two bytes each, little-endian on every machine. */
export function encodeLengths(lengths: Uint16Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(lengths.length * 2)
  for (const [ordinal, length] of lengths.entries()) bytes.writeUInt16LE(length, ordinal * 2)
  return bytes
}

export function decodeLengths(bytes: Uint8Array): Uint16Array {
  const lengths = new Uint16Array(bytes.length / 2)
  for (let at = 0; at < lengths.length; at++) {
    lengths[at] = (bytes[at * 2] as number) | ((bytes[at * 2 + 1] as number) << 8)
  }
  return lengths
}

export const decodePassages = ({ passages, lengths }: StoredPassages): SegmentPassages => ({
  ids: decodeIds(passages, lengths.length / 2),
  lengths: decodeLengths(lengths),
})
