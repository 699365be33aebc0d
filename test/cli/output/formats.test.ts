import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findDuration, getDuration } from '../../../src/cli/input/duration.ts'
import { createPainter } from '../../../src/cli/output/colour.ts'
import {
  chooseColumns,
  chooseFields,
  eachAt,
  findAtPath,
  toFieldLines,
  toIdLines,
  toJson,
  toTsv,
} from '../../../src/cli/output/formats.ts'
import { toCard } from '../../../src/cli/output/table.ts'

const rows = [
  { id: '1', name: 'handbook', users: [{ email: 'a@b.c' }], size: 3 },
  { id: '2', name: 'tab\tline\nback\\slash', users: [], size: null },
]
const view = { columns: [{ path: 'name' }, { path: 'size' }], idPath: 'id' }

describe('formats', () => {
  test('TSV has one line for each row and keeps every cell in its column', () => {
    expect(toTsv(rows, view.columns, true)).toBe('name\tsize\nhandbook\t3\ntab\\tline\\nback\\\\slash\t\n')
    expect(toTsv(rows, view.columns, false).split('\n')).toHaveLength(3)
  })

  test('an object is one cell in a table, and unchanged in a field', async () => {
    const columns = [{ path: 'name' }, { path: 'users', toCell: eachAt('email') }]
    const group = { name: 'a', users: [{ email: 'a@b.c' }, { email: 'd@e.f' }] }
    expect(toTsv([group], columns, false)).toBe('a\ta@b.c,d@e.f\n')
    expect(toCard(group, columns, { painter: await createPainter(false), now: 0 })).toContain('a@b.c,d@e.f\n')
    expect(toFieldLines(group, 'users.1.email')).toBe('d@e.f\n')
    expect(toTsv([{ users: [] }, { users: null }], columns.slice(1), false)).toBe('\n\n')
  })

  test('TSV cells can be read back exactly', () => {
    const originals: Record<string, string> = { '\\\\': '\\', '\\t': '\t', '\\n': '\n', '\\r': '\r' }
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const cell = toTsv([{ text }], [{ path: 'text' }], false).slice(0, -1)
        expect(cell.replace(/\\[\\tnr]/g, (pair) => originals[pair] ?? pair)).toBe(text)
      }),
    )
  })

  test('JSON on a terminal contains no control characters and has the same value', () => {
    const value = { text: 'a\x1b[31m\x9b2J\x7f' }
    const shown = toJson(value, { indent: 2, terminal: true })
    expect(shown).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/)
    expect(JSON.parse(shown)).toEqual(value)
    expect(JSON.parse(toJson(value, { indent: 0, terminal: false }))).toEqual(value)
  })

  test('--field prints one value raw, and one line for each row of a list', () => {
    expect(toFieldLines(rows[0] ?? {}, 'users.0.email')).toBe('a@b.c\n')
    expect(toFieldLines(rows, 'id')).toBe('1\n2\n')
    expect(toFieldLines(rows, '1.id')).toBe('2\n')
    expect(toFieldLines([], 'id')).toBe('')
    expect(() => toFieldLines(rows, 'nmae')).toThrow("there is no field 'nmae'")
  })

  test('a field that is not the own member of a value is none', () => {
    expect(findAtPath({}, 'constructor.name')).toBeUndefined()
    expect(findAtPath('text', 'length')).toBeUndefined()
  })

  test('--fields chooses columns and JSON members, in the order given', () => {
    const columns = chooseColumns(rows, view, ['size', 'users.0.email'])
    expect(columns.map(({ path }) => path)).toEqual(['size', 'users.0.email'])
    expect(chooseFields(rows[0] ?? {}, columns)).toEqual({ size: 3, 'users.0.email': 'a@b.c' })
    expect(() => chooseColumns(rows, view, ['colour'])).toThrow("there is no field 'colour'")
  })

  test('-o id prints only ids, and rejects resources without ids', () => {
    expect(toIdLines(rows, view)).toBe('1\n2\n')
    expect(() => toIdLines(rows, { columns: [] })).toThrow('no ids')
  })

  test('durations carry their unit', () => {
    expect(['500ms', '30s', '1.5m', '2h'].map(findDuration)).toEqual([500, 30_000, 90_000, 7_200_000])
    for (const text of ['', '30', 's', '-1s', '1d', '1s2']) expect(findDuration(text)).toBeUndefined()
    expect(() => getDuration('soon', '--timeout')).toThrow("--timeout must be a duration, not 'soon'")
  })
})
