import fc from 'fast-check'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { UnstorableValueError } from '../../../../src/daemon/platform/db/engine.ts'
import { rowList } from '../../../../src/daemon/platform/db/row-list.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'

const COLUMNS = { place: 'integer', words: 'text', amount: 'integer' } as const
const HALVES = [0xd800, 0xdbff, 0xdc00, 0xdfff].map((code) => String.fromCharCode(code))

/** Every text that both engines can store, with many that resemble unstorable characters. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }).map((value) => value.replaceAll('\0', '')),
  fc.string({
    unit: fc.constantFrom(
      '"',
      '\\',
      '\\u0000',
      '\\ud83d',
      '\\\\ud83d',
      "'",
      '$1',
      '?',
      '\n',
      '\u2028',
      'é',
      '😀',
      'null',
    ),
  }),
)

describeEachEngine('rowList', (engine) => {
  const store = storeForEach(engine)

  async function read(rows: readonly { place: number; words: string | null; amount: number | null }[]) {
    const list = rowList(store.db, COLUMNS, rows)
    const found = await sql<
      (typeof rows)[number]
    >`select place, words, amount from ${list} as listed order by place`.execute(store.db)
    return found.rows.map((row) => ({ ...row }))
  }

  test('returns every text, integer and null as stored', async () => {
    const row = fc.record({ words: fc.option(text), amount: fc.option(fc.maxSafeInteger()) })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 10 }), async (values) => {
        const rows = values.map((value, place) => ({ place, ...value }))
        expect(await read(rows)).toEqual(rows)
      }),
      { numRuns: 100 },
    )
  })

  test.each(['{"a":"\\ud83d\\ude00"}', '"\\u0000"', '\\ud800', 'plain'])('accepts the letters %s', async (words) => {
    expect(await read([{ place: 1, words, amount: 1 }])).toEqual([{ place: 1, words, amount: 1 }])
  })

  test.each([['a NUL', '\0'], ...HALVES.map((half) => ['half a pair', half])])(
    'rejects %s and names the column',
    (_, bad) => {
      const rows = [{ place: 1, words: `\\ud83d 😀 ${bad}`, amount: 1 }]
      expect(() => rowList(store.db, COLUMNS, rows)).toThrow(UnstorableValueError)
      expect(() => rowList(store.db, COLUMNS, rows)).toThrow('words')
    },
  )

  test('rejects column names that could be something else', () => {
    expect(() => rowList(store.db, { 'a; drop': 'text' }, [])).toThrow(UnstorableValueError)
  })
})
