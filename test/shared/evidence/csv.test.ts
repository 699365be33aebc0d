import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toCsvLine } from '../../../src/shared/evidence/csv.ts'

/** Reads CSV according to RFC 4180. */
function parse(csv: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  for (const [, quoted, plain, end] of csv.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    row.push(quoted === undefined ? (plain ?? '') : quoted.replaceAll('""', '"'))
    if (end === ',') continue
    rows.push(row)
    row = []
  }
  return rows
}

test('cells are read as written, except for an apostrophe before text that a spreadsheet would execute', () => {
  const cell = fc.oneof(fc.string(), fc.constantFrom('=1+1', '+1', '-1', '@sum', '\t=1', 'a,"b"\r\nc', '', '"'))
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell), { minLength: 1, maxLength: 5 }), (rows) => {
      const read = parse([['a', 'b'], ...rows].map(toCsvLine).join(''))
      expect(read[0]).toEqual(['a', 'b'])
      expect(read.slice(1)).toEqual(
        rows.map((row) => row.map((text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text))),
      )
      expect(read.flat().filter((text) => /^[=+\-@\t\r]/.test(text))).toEqual([])
    }),
  )
})
