import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { searchPassages } from '../../../../src/daemon/knowledge/search/search.ts'
import { postgresEngine, sqliteEngine, type TestStore } from '../../../engines.ts'
import { sharedResources } from '../../../shared-resources.ts'
import { insertNamedIndex, insertTenant, train } from '../indexes/trained-store.ts'

const TOPICS = [
  'backup',
  'webhook',
  'invoice',
  'signature',
  'firewall',
  'Häuser',
  '知識庫',
  'อากาศ',
  'страница',
  '학교에서',
]
const VERBS = ['restore', 'deliver', 'verify', 'rotate', 'archive', 'inspect']
const CASES = TOPICS.flatMap((topic, at) =>
  VERBS.map((verb, offset) => ({
    source: `${topic}-${verb}.md`,
    query: `How do I ${verb} the ${topic} each night?`,
    text: [
      `# ${topic}`,
      `To ${verb} it, run the tool with option ${at}. The ${TOPICS[(at + 1) % TOPICS.length]} is not concerned.`,
      `## Details`,
      `Each night the ${topic} of the day is kept. ${'It is safe. '.repeat(offset * 20)}`,
    ].join('\n\n'),
  })),
)

describe('ranking', () => {
  const stores: TestStore[] = []
  beforeAll(async () => {
    for (const engine of [sqliteEngine, postgresEngine]) {
      const store = await engine.open()
      stores.push(store)
      sharedResources.add(store)
      await insertTenant(store.db, 'a')
      await insertNamedIndex(store.db, 'a', 'zoo')
      for (const { source, text } of CASES) await train(store.db, 'a', 'zoo', source, text)
    }
  })
  afterAll(async () => {
    for (const store of stores) {
      sharedResources.delete(store)
      await store.close()
    }
  })
  const searchBoth = (query: string) =>
    Promise.all(
      stores.map(async ({ db }) =>
        (await searchPassages(db, 'a', 'zoo', query, 20)).map(({ source, position, score }) => ({
          source,
          position,
          score,
        })),
      ),
    )

  test('both engines find the same passages with identical scores', async () => {
    const words = fc.constantFrom(...TOPICS, ...VERBS, 'night', 'tool', 'safe', 'the', 'hauser', 'unknown', 'back up')
    await fc.assert(
      fc.asyncProperty(fc.array(words, { maxLength: 8 }), async (query) => {
        const [one, other] = await searchBoth(query.join(' '))
        expect(other).toEqual(one)
        for (const { score } of one ?? []) expect(score > 0 && score <= 1).toBe(true)
        const scores = one?.map(({ score }) => score) ?? []
        expect(scores).toEqual([...scores].sort((left, right) => right - left))
      }),
      { numRuns: 60 },
    )
  })

  test('the answering document is among the first three', async () => {
    for (const { query, source } of CASES) {
      const [found] = await searchBoth(query)
      expect([...new Set(found?.map((match) => match.source))].slice(0, 3), query).toContain(source)
    }
  })
})

describe('of two passages with the same words', () => {
  const best = async (query: string, ...texts: string[]) => {
    const store = await sqliteEngine.open()
    try {
      await insertTenant(store.db, 'a')
      await insertNamedIndex(store.db, 'a', 'zoo')
      for (const [at, text] of texts.entries()) await train(store.db, 'a', 'zoo', `${at}.md`, text)
      const matches = await searchPassages(store.db, 'a', 'zoo', query, 10)
      return matches.map(({ source, score }) => ({ source, score }))
    } finally {
      await store.close()
    }
  }

  test('the one with adjacent words comes first', async () => {
    const [first, second] = await best(
      'signing key',
      'The key of the house is here, and so are many other things that one may want before signing.',
      'The house is here, and so are many other things that one may want before the signing key of it.',
    )
    expect(first?.source).toBe('1.md')
    expect(first?.score).toBeGreaterThan(second?.score ?? 1)
  })

  test('the one with the other words of the query comes first, and such words find nothing alone', async () => {
    const found = await best(
      'What are the other categories for?',
      'Two categories are used by this standard, and they have names and numbers.',
      'Two categories are used by this standard, and others are for what it names.',
      'What are the others for?',
    )
    expect(found.map(({ source }) => source)).toEqual(['1.md', '0.md'])
    expect(found[0]?.score).toBeGreaterThan(found[1]?.score ?? 1)
  })

  test("the one with the query's diacritics comes first, and the other one is found too", async () => {
    expect(await best('ma', 'mã', 'ma')).toHaveLength(2)
    expect((await best('mã', 'ma', 'mã')).map(({ source }) => source)).toEqual(['1.md', '0.md'])
  })

  test('the one with a related neighbour comes first', async () => {
    const rest = 'Nothing else is said in this part of it.'
    const [first] = await best(
      'otters',
      `# A\n\nOtters are here.\n\n# B\n\n${rest}`,
      `# A\n\nOtters are here.\n\n# B\n\nMore on otters in this part of it.`,
    )
    expect(first?.source).toBe('1.md')
  })
})
