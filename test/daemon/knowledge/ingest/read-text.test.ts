import { afterEach, expect, test } from 'vitest'
import { createExtractor, type Extractor } from '../../../../src/daemon/knowledge/ingest/extract/pool.ts'
import { createTextReader } from '../../../../src/daemon/knowledge/ingest/read-text.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { extractionProgram } from '../../../harness.ts'
import { pdf } from './extract/files.ts'

const log = { debug() {}, info() {}, warn() {}, error() {} }
const by = { tenantId: 'one', signal: new AbortController().signal }
const LIMIT = 1_000

let extractor: Extractor | undefined
afterEach(() => extractor?.close())

const fileOf = (content: Buffer, type = 'application/pdf') => ({ name: '', type, content: new Uint8Array(content) })

test('the text of a file is read with its title, up to a limit', async () => {
  extractor = createExtractor({ clock: systemClock, log, program: extractionProgram(), lowPriority: false })
  const text = (content: Buffer, limit = LIMIT) => extractor?.text(fileOf(content), by, limit)
  expect(await text(pdf([['Otters swim.']], { title: 'Animals' }))).toMatch(/^Animals\n\nOtters swim\.\s*$/)
  expect(await text(pdf([['Otters swim.']]), 5)).toBeUndefined()
  expect(await text(Buffer.from('%PDF-1.4 broken'))).toBeUndefined()
  expect(await extractor.text(fileOf(Buffer.from('Otters'), 'text/plain'), by, LIMIT)).toBe('Otters')
})

test('a text is kept; a file that cannot be read is read again', async () => {
  const reads: string[] = []
  const cached = createTextReader(async ({ content, type }) => {
    const text = Buffer.from(content).toString()
    reads.push(`${type} ${text}`)
    return text === 'broken' ? undefined : text
  })
  for (const content of ['one', 'one', 'two', 'broken', 'broken', 'one']) {
    const text = await cached(fileOf(Buffer.from(content), 'a/b'), by, LIMIT)
    expect(text).toBe(content === 'broken' ? undefined : content)
  }
  await cached(fileOf(Buffer.from('one'), 'c/d'), by, LIMIT)
  expect(reads).toEqual(['a/b one', 'a/b two', 'a/b broken', 'a/b broken', 'c/d one'])
})
