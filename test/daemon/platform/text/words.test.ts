import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sentenceEnds } from '../../../../src/daemon/platform/text/sentences.ts'
import { contentWords, joinedWords, topicOf, wordPieces, wordsOf } from '../../../../src/daemon/platform/text/words.ts'
import { expectProportionate } from '../../../growth.ts'

test('words are lower case, without punctuation, and separated in scripts without spaces', () => {
  expect(wordsOf('Don’t PANIC: v2.0 of README.md')).toEqual(['don', 't', 'panic', 'v2', '0', 'of', 'readme', 'md'])
  expect(wordsOf('知識庫可以回答問題')).toEqual(['知識', '庫', '可以', '回答', '問題'])
  expect(wordsOf('ประเทศไทยมีอากาศร้อน')).toContain('อากาศ')
})

test('a question keeps the words that carry meaning, or all if it has no others', () => {
  expect(contentWords('How do I install the gateway?')).toEqual(['install', 'gateway'])
  expect(contentWords('Who are you?')).toEqual(['who', 'are', 'you'])
})

test.each([
  ['US holidays', ['us', 'holidays']],
  ['What is the extension of IT?', ['extension', 'it']],
  ['WHAT IS THE VPN?', ['vpn']],
  ['Who tells us about holidays?', ['tells', 'holidays']],
  ['cats AND dogs', ['cats', 'dogs']],
  ["What's the so\u00adft hyphen?", ['soft', 'hyphen']],
])('capitals among other letters mark a name: %s', (question, words) => {
  expect(contentWords(question)).toEqual(words)
})

test.each([
  ['How do I make a backup?', ['backup']],
  ['Which databases are supported?', ['databases']],
  ['How does it work?', ['work']],
  ['Is it possible to use it?', ['possible', 'use']],
  ['backups make sense', ['backups', 'make', 'sense']],
  ['Wo ist der See?', ['wo', 'ist', 'der', 'see']],
  ['Was machen die Pandas im See?', ['machen', 'die', 'pandas', 'im', 'see']],
  ['¿Cómo hago una copia?', ['cómo', 'hago', 'una', 'copia']],
])('the topic of a question is left without everyday words of English: %s', (question, words) => {
  expect(wordsOf(topicOf(question))).toEqual(words)
})

test('neighbours are also one word each, but for two that mean nothing', () => {
  const joined = [...joinedWords('How do I back-up the data base? 知識 x2')]
  expect(joined).toEqual([
    ['backup', ['back', 'up']],
    ['thedata', ['the', 'data']],
    ['database', ['data', 'base']],
  ])
})

test('the words of a run are adjacent', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 1000 }), (run) => {
      expect(wordPieces(run).join('')).toBe(run)
    }),
  )
})

test('sentences are adjacent, each with at most a thousand characters', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('A b. ', '字。', 'x'.repeat(600), '\n', '? ', '👍'), { maxLength: 40 }),
      (parts) => {
        const text = parts.join('')
        let start = 0
        for (const end of sentenceEnds(text, 0, text.length)) {
          expect(end).toBeGreaterThan(start)
          expect(end - start).toBeLessThanOrEqual(1000)
          start = end
        }
        expect(start).toBe(text.length)
      },
    ),
  )
})

test('a megabyte of Chinese without a break is split into words in linear time', async () => {
  // A segmenter takes minutes for the complete text.
  await expectProportionate((part) => {
    expect(wordsOf('漢字'.repeat(500_000 * part)).length).toBeGreaterThan(100_000 * part)
  })
})
