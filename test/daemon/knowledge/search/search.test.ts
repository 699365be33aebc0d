import fc from 'fast-check'
import { expect, test } from 'vitest'
import { queryOf } from '../../../../src/daemon/knowledge/search/query.ts'
import { searchPassages } from '../../../../src/daemon/knowledge/search/search.ts'
import { describeEachEngine } from '../../../engines.ts'
import { insertNamedIndex, insertTenant, sharedStore, train } from '../indexes/trained-store.ts'

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

  test('the passage with the word in its heading comes first, with scores between 0 and 1', async () => {
    const matches = await search('How are webhooks disabled?')
    expect(matches.map((match) => match.headings)).toEqual(['Guide > Webhooks', 'Guide > Rate limits'])
    expect(matches[0]).toMatchObject({ source: 'guide.md', title: 'Guide', position: 0 })
    expect(matches[0]?.score).toBeLessThanOrEqual(1)
    expect(matches[0]?.score).toBeGreaterThan(matches[1]?.score ?? 1)
    expect(matches[1]?.score).toBeGreaterThan(0)
  })

  test('a heading about the question outweighs words in other texts, and everyday words decide nothing', async () => {
    const own = await engine.open()
    try {
      await insertTenant(own.db, 'a')
      await insertNamedIndex(own.db, 'a', 'a-one')
      const texts = {
        'pipes.md': '# Pipes\n\nMake the pipe long. A pipe does not make a backup of what it carries.',
        'store.md':
          '# The store\n\n## Back up the store\n\nCopy two files. A backup without a master key opens nothing.',
        'other.md': '# Other\n\nTexts of other things, which nobody asks about.',
      }
      for (const [source, text] of Object.entries(texts)) await train(own.db, 'a', 'a-one', source, text)
      const best = async (query: string) => (await searchPassages(own.db, 'a', 'a-one', query, 10))[0]?.source
      expect(await best('How do I make a backup?')).toBe('store.md')
      expect(await best('backup')).toBe('store.md')
    } finally {
      await own.close()
    }
  })

  test('neither another index nor another tenant is ever found', async () => {
    const sources = (await search('webhooks another index tenant')).map((match) => match.source)
    expect(new Set(sources)).toEqual(new Set(['guide.md']))
    expect(await searchPassages(store.db, 'b', 'a-one', 'webhooks', 10)).toEqual([])
  })

  test('the frequency of a word in other indexes does not change scores', async () => {
    const own = await engine.open()
    try {
      const texts = ['Pandas eat bamboo.', 'Otters eat fish.', 'Pandas sleep a lot.', 'Zebras never sleep.']
      for (const tenant of ['a', 'b']) {
        await insertTenant(own.db, tenant)
        await insertNamedIndex(own.db, tenant, `${tenant}-one`)
      }
      for (const [at, text] of texts.entries()) await train(own.db, 'a', 'a-one', `${at}.md`, text)
      const scores = async () =>
        (await searchPassages(own.db, 'a', 'a-one', 'Do pandas sleep?', 10)).map(({ source, score }) => ({
          source,
          score,
        }))
      const before = await scores()
      // As long as ours, so that the mean length of a passage stays the same.
      for (let at = 0; at < 52; at++) {
        const text = (texts[at % 4] ?? '').replace(/\w+(?=\W)/, 'pandas').replace(/\w+(?=\.$)/, 'pandas')
        await train(own.db, 'b', 'b-one', `${at}.md`, text)
      }
      const after = await scores()
      expect(before).toHaveLength(3)
      expect(after.map(({ source }) => source)).toEqual(before.map(({ source }) => source))
      for (const [at, { score }] of after.entries()) expect(score).toBeCloseTo(before[at]?.score ?? 0, 3)
    } finally {
      await own.close()
    }
  })

  test('separate spelling finds compounds, at no cost where none occur', async () => {
    await train(store.db, 'a', 'a-two', 'operations.md', '# Backup\n\nCopy the folder while the daemon runs.')
    const found = await searchPassages(store.db, 'a', 'a-two', 'How do I back up?', 10)
    expect(found.map(({ source }) => source)).toEqual(['operations.md'])
    const joined = { term: 'endpointrequest', weight: 1, required: false }
    expect(queryOf('endpoint requests').terms).toContainEqual(joined)
    const [two] = await search('endpoint requests per minute', 1)
    const [turned] = await search('minute per requests endpoint', 1)
    expect(two?.score).toBeCloseTo(turned?.score ?? 0, 6)
  })

  test('a word with a thousand uses elsewhere is found in a small index as before', async () => {
    await train(store.db, 'b', 'b-one', 'many.md', Array.from({ length: 1000 }, () => '# b\n\nc').join('\n\n'))
    await train(store.db, 'a', 'a-two', 'b.md', 'Plan b is the better one.')
    expect((await searchPassages(store.db, 'a', 'a-two', 'b', 10)).map(({ source }) => source)).toEqual(['b.md'])
  })

  test.each([
    ['README', 'Guide > Files'],
    ['your-key placeholder', 'Guide > Files'],
    ['AIGW yaml', 'Guide > Files'],
    ['回答', 'Guide > Größe'],
    ['อากาศ', 'Guide > Größe'],
    ['страница', 'Guide > Größe'],
    ['endpoints failing failure', 'Guide > Webhooks'],
  ])('%s finds %s', async (query, headings) => {
    expect((await search(query, 1)).map((match) => match.headings)).toEqual([headings])
  })

  test('passages are returned exactly as they were written', async () => {
    const [match] = await search('知識庫')
    expect(match?.body).toBe('Домашняя Страница. 知識庫可以回答問題。ประเทศไทยมีอากาศร้อน')
  })

  test.each(['', '   ', '?!', '"" OR *', '\0', '😀', '\ud800'])(
    '%j contains no words and finds nothing, without an error',
    async (query) => {
      expect(await search(query)).toEqual([])
    },
  )

  test('no text causes an error', async () => {
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

  test('a capitalised name is searched, even if it is spelled like a stop word', () => {
    const wanted = (text: string) => queryOf(text).terms.flatMap(({ term, required }) => (required ? [term] : []))
    expect(wanted('US holidays')).toEqual(['us', 'holidai'])
    expect(wanted('What is the extension of IT?')).toEqual(['exten', 'it'])
    expect(wanted('Who tells us of holidays?')).toEqual(['tell', 'holidai'])
  })

  test('only the first 4,000 characters are searched, also after expansion', () => {
    const wanted = (text: string) => queryOf(text).terms.map(({ term }) => term)
    expect(wanted(`${' '.repeat(3_990)}otter`)).toContain('otter')
    expect(wanted(`${' '.repeat(4_000)}otter`)).toEqual([])
    // One character that expands to eighteen.
    expect(wanted(`${'\ufdfa '.repeat(500)}otter`)).not.toContain('otter')
  })

  test('a query of a quarter megabyte is reduced to its longest words', async () => {
    const { terms, pairs } = queryOf(
      `${'ab '.repeat(1000)}${Array.from({ length: 20_000 }, (_, at) => `word${at}`).join(' ')}`,
    )
    expect(terms.filter(({ required }) => required)).toHaveLength(64)
    expect(terms.length).toBeLessThan(200)
    expect(pairs.length).toBeLessThanOrEqual(64)
    expect(await search(`${'disabled endpoint '.repeat(15_000)}`)).not.toEqual([])
  })
})
