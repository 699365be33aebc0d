import fc from 'fast-check'
import { expect, test } from 'vitest'
import { queryWords, searchPassages } from '../../../src/daemon/knowledge/search.ts'
import { describeEachEngine } from '../../engines.ts'
import { insertNamedIndex, insertTenant, sharedStore, train } from './trained-store.ts'

describeEachEngine('searching passages', (engine) => {
  const store = sharedStore(engine, async (db) => {
    for (const tenant of ['a', 'b']) {
      await insertTenant(db, tenant)
      await insertNamedIndex(db, tenant, `${tenant}-one`)
    }
    await insertNamedIndex(db, 'a', 'a-two')
    await train(
      db,
      'a',
      'a-one',
      'guide.md',
      [
        '# Guide\n\n## Webhooks\n\nAn endpoint is disabled after twenty failures in a row.',
        '## Rate limits\n\nEach key may send sixty requests per minute. A webhook does not count.',
        '## Files\n\nSee README.md and the <your-key> placeholder in config/aigw.yaml.',
        '## Größe\n\nДомашняя Страница. 知識庫可以回答問題。ประเทศไทยมีอากาศร้อน',
      ].join('\n\n'),
    )
    await train(db, 'a', 'a-two', 'other.md', 'Webhooks of another index.')
    await train(db, 'b', 'b-one', 'secret.md', 'Webhooks of another tenant.')
  })

  const search = (query: string, limit = 10) => searchPassages(store.db, 'a', 'a-one', query, limit)

  test('the passage with the word in its heading comes first, with scores that fall between 1 and 0', async () => {
    const matches = await search('How are webhooks disabled?')
    expect(matches.map((match) => match.headings)).toEqual(['Guide > Webhooks', 'Guide > Rate limits'])
    expect(matches[0]).toMatchObject({ source: 'guide.md', title: 'Guide', position: 0 })
    expect(matches[0]?.score).toBeLessThanOrEqual(1)
    expect(matches[0]?.score).toBeGreaterThan(matches[1]?.score ?? 1)
    expect(matches[1]?.score).toBeGreaterThan(0)
  })

  test('neither another index nor another tenant is ever found', async () => {
    const sources = (await search('webhooks another index tenant')).map((match) => match.source)
    expect(new Set(sources)).toEqual(new Set(['guide.md']))
    expect(await searchPassages(store.db, 'b', 'a-one', 'webhooks', 10)).toEqual([])
  })

  test('the texts of other tenants do not move the scores of this one', async () => {
    const before = await search('disabled webhooks')
    await train(store.db, 'b', 'b-one', 'more.md', 'disabled disabled disabled')
    const after = await search('disabled webhooks')
    expect(after.map((match) => match.passageId)).toEqual(before.map((match) => match.passageId))
    for (const [at, match] of after.entries()) expect(match.score).toBeCloseTo(before[at]?.score ?? 0, 1)
  })

  test.each([
    ['README', 'Guide > Files'],
    ['your key', 'Guide > Files'],
    ['AIGW yaml', 'Guide > Files'],
    ['回答', 'Guide > Größe'],
    ['อากาศ', 'Guide > Größe'],
    ['страница', 'Guide > Größe'],
    ['endpoints failing failure', 'Guide > Webhooks'],
  ])('%s finds %s', async (query, headings) => {
    expect((await search(query, 1)).map((match) => match.headings)).toEqual([headings])
  })

  test('passages come back exactly as they were written', async () => {
    const [match] = await search('知識庫')
    expect(match?.body).toBe('Домашняя Страница. 知識庫可以回答問題。ประเทศไทยมีอากาศร้อน')
  })

  test.each(['', '   ', '?!', '"" OR *', '\0', '😀', '\ud800'])(
    '%j holds no words and finds nothing, or no error',
    async (query) => {
      expect(await search(query)).toEqual([])
    },
  )

  test('no text whatever is an error', async () => {
    const operators = fc.constantFrom(
      'AND',
      'OR',
      'NOT',
      'NEAR(',
      ')',
      '"',
      "'",
      '*',
      '^',
      ':',
      '-',
      '+',
      '{',
      '}',
      '|',
      '&',
      '!',
      '<->',
      '\\',
      '\0',
      'body',
      'headings',
      'webhook',
      '😀',
      '\ud800',
      'é',
      '字',
      'ก็',
      '\u0301',
    )
    const query = fc.oneof(
      fc.array(operators, { maxLength: 12 }).map((parts) => parts.join(' ')),
      fc.array(operators, { maxLength: 12 }).map((parts) => parts.join('')),
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 30 }).map((codes) => String.fromCharCode(...codes)),
    )
    await fc.assert(
      fc.asyncProperty(query, async (text) => {
        for (const { score } of await search(text, 3)) {
          expect(score).toBeGreaterThan(0)
          expect(score).toBeLessThanOrEqual(1)
        }
      }),
      { numRuns: 300 },
    )
  })

  test('a query of a quarter megabyte is cut down to its longest words', async () => {
    const words = queryWords(`${'ab '.repeat(1000)}${Array.from({ length: 20_000 }, (_, at) => `word${at}`).join(' ')}`)
    expect(words).toHaveLength(32)
    expect(await search(`${'disabled endpoint '.repeat(15_000)}`)).not.toEqual([])
  })
})
