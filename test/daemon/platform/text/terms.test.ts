import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { indexTermsOf } from '../../../../src/daemon/platform/text/terms.ts'

const terms = (text: string) => indexTermsOf(text).map(({ term }) => term)
const furtherOf = (text: string) => indexTermsOf(text).flatMap(({ further }) => further.map(({ term }) => term))
const allTerms = (text: string) => new Set([...terms(text), ...furtherOf(text)])

test.each([
  ['English', 'installing', 'installed', 'installs'],
  ['Russian', 'страница', 'страницы', 'страниц'],
  ['Greek', 'σελίδα', 'σελίδες', 'ΣΕΛΙΔΑ'],
  ['Arabic, with the article and without, pointed and not', 'المدارس', 'مدارس', 'مَدارِس'],
  ['Hindi', 'किताबें', 'किताब'],
])('%s words have one term with their other forms', (_, ...forms) => {
  expect(new Set(forms.flatMap(terms)).size).toBe(1)
})

test.each(['Kranken\u00adhaus', 'Kran\u200bkenhaus', 'Kranken\u2060haus', '\ufeffKrankenhaus', 'Kranken\u200dhaus'])(
  'invisible characters do not split a word: %j',
  (text) => {
    expect(indexTermsOf(text)).toEqual(indexTermsOf('Krankenhaus'))
  },
)

test.each([
  ['German', 'Versicherungen', 'Versicherungsschein'],
  ['Finnish', 'talossammekin', 'talossani'],
  ['Turkish', 'kitaplarımızdan', 'kitaplar'],
  ['Korean, with a particle', '학교에서', '학교'],
  ['Chinese, cut apart elsewhere', '人工智能研究', '研究人工智能'],
  ['Japanese', '東京都庁', '東京'],
  ['Thai', 'ประเทศไทย', 'ประเทศ'],
])('%s words share a term with related words', (_, one, other) => {
  const ofOther = allTerms(other)
  expect([...allTerms(one)].filter((term) => ofOther.has(term))).not.toEqual([])
})

describe('spelling variants', () => {
  test.each([
    ['full width', 'ＡＩＧＷ', 'aigw'],
    ['a ligature', 'ﬁle', 'file'],
    ['accents', 'Résumé', 'resume'],
    ['combining accents', 'Re\u0301sume\u0301', 'Résumé'],
    ['ß', 'Straße', 'STRASSE'],
    ['half-width kana with a mark apart', 'ｶﾞ', 'ガ'],
    ['й', 'Нижний', 'нижнии'],
  ])('%s has the same terms', (_, one, other) => {
    expect(terms(one)).toEqual(terms(other))
  })

  test('keep their diacritics in a separate term, which the plain spelling lacks', () => {
    expect(furtherOf('Tiếng Việt')).toEqual(expect.arrayContaining(['^tiếng', '^việt']))
    expect(furtherOf('Tieng Viet').filter((term) => term.startsWith('^'))).toEqual([])
  })
})

test('the terms of a word are independent of its context', () => {
  const word = fc.constantFrom('gateway', 'Häuser', 'страница', '知識庫', 'อากาศ', '학교에서', 'x2', 'README')
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 8 }), (words) => {
      expect(indexTermsOf(words.join(', '))).toEqual(words.flatMap(indexTermsOf))
    }),
  )
})

test.each([
  ['ﷺ', 4],
  ['½', 2],
  ['字½', 3],
  ['ŀ', 1],
  ['\u0301', 0],
  ['字\u0301', 1],
])('%s is %i words', (text, count) => {
  expect(terms(text)).toHaveLength(count)
  for (const term of allTerms(text)) expect(term).toMatch(/^[\^*]?[\p{L}\p{N}]+$/u)
})

test('any text has terms of letters and digits only, with a maximum length', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (text) => {
      for (const term of allTerms(text)) expect(term).toMatch(/^[\^*]?[\p{L}\p{N}\p{M}]{1,80}$/u)
    }),
    // In the example, a prefix of four code units would end inside a character.
    { numRuns: 300, examples: [['\u038e\u{108e0}\u{16f00}']] },
  )
})
