import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodePage } from '../../../../src/daemon/knowledge/indexes/postings.ts'
import type { Passage } from '../../../../src/daemon/knowledge/ingest/chunking.ts'
import {
  beginPreparation,
  joinSegments,
  type PackedSegment,
  pagesOf,
  prepareDocument,
  SMALL_PASSAGES,
  unpackPassages,
} from '../../../../src/daemon/knowledge/ingest/prepared-document.ts'

const word = fc.constantFrom('otter', 'otters', 'seal', 'the', 'größe', '东京', 'a', 'walrus')
const passages = (maxLength: number) =>
  fc
    .array(fc.record({ headings: fc.array(word, { maxLength: 2 }), body: fc.array(word, { minLength: 1 }) }), {
      minLength: 1,
      maxLength,
    })
    .map((all) =>
      all.map(({ headings, body }, position): Passage => {
        return { position, headings: headings.join(' > '), body: body.join(' ') }
      }),
    )

/** Every term of a segment with its postings, without page numbers. */
const termsIn = (segment: PackedSegment) =>
  Object.fromEntries(
    pagesOf(segment)
      .flatMap((page) => [...decodePage(page)])
      .sort(([one], [other]) => (one < other ? -1 : 1)),
  )

test('the passages of a document are read as stored, with their pages and positions', () => {
  fc.assert(
    fc.property(passages(250), (all) => {
      const { batches, passageCount } = prepareDocument('', 'a.md', all)
      expect(batches.flatMap(unpackPassages)).toEqual(all)
      expect(passageCount).toBe(all.length)
    }),
    { numRuns: 20 },
  )
})

test('joined segments equal one segment of all their passages', () => {
  fc.assert(
    fc.property(fc.array(passages(12), { minLength: 1, maxLength: 6 }), (documents) => {
      const apart = documents.flatMap((all) => prepareDocument('', 'a.md', all).segments)
      const together = documents.flat().map((passage, position) => ({ ...passage, position }))
      const [whole] = prepareDocument('', 'a.md', together).segments
      const joined = joinSegments(apart)
      expect(termsIn(joined)).toEqual(termsIn(whole as PackedSegment))
      expect(joined.lengths).toEqual(whole?.lengths)
      expect(joined.ends.length).toBe(whole?.ends.length)
    }),
  )
})

test('small documents that are prepared together share a segment, which equals their joined segments', () => {
  fc.assert(
    fc.property(fc.array(passages(60), { minLength: 1, maxLength: 6 }), (documents) => {
      const preparation = beginPreparation()
      const together = documents.map((all, at) => preparation.add(`Title ${at}`, 'a.md', all))
      const alone = documents.map((all, at) => prepareDocument(`Title ${at}`, 'a.md', all))
      const isSmall = ({ passageCount }: { passageCount: number }) => passageCount <= SMALL_PASSAGES
      expect(together.filter((one) => !isSmall(one))).toEqual(alone.filter((one) => !isSmall(one)))
      expect(together.filter(isSmall)).toEqual(alone.filter(isSmall).map((one) => ({ ...one, segments: [] })))
      const shared = preparation.together()
      const small = alone.filter(isSmall).flatMap(({ segments }) => segments)
      expect(shared && termsIn(shared)).toEqual(small.length > 0 ? termsIn(joinSegments(small)) : undefined)
    }),
    { numRuns: 40 },
  )
})

test('a large document has segments that merges skip, each with its start position', () => {
  const all = Array.from({ length: 9_000 }, (_, position) => ({ position, headings: '', body: 'seal' }))
  const { segments } = prepareDocument('', 'a.md', all)
  expect(segments.map(({ first, lengths }) => [first, lengths.length])).toEqual([
    [0, 4_096],
    [4_096, 4_096],
    [8_192, 808],
  ])
})

test.each([
  ['Otters', 'file.md', 'Otters', true],
  ['otters.md', 'otters.md', 'otters.md', false],
  ['', 'otters.md', 'otters.md', false],
])('a title %j of the file %j is shown as %j, and found by: %j', (title, source, shown, isFound) => {
  const document = prepareDocument(title, source, [{ position: 0, headings: '', body: 'They swim.' }])
  expect(document.title).toBe(shown)
  expect(Object.keys(termsIn(document.segments[0] as PackedSegment)).includes('otter')).toBe(isFound)
})
