import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSecretsDetector } from '../../../../../src/daemon/safety/guards/dlp/secrets.ts'
import { expectIncremental } from '../incremental.ts'
import { HARMLESS, SECRETS } from './samples.ts'

const detector = createSecretsDetector()
const found = (text: string) => detector.find(text).map(({ start, end, type }) => [text.slice(start, end), type])

describe('secrets', () => {
  test.each(SECRETS)('%j', (text, secret, type) => {
    expect(found(text)).toEqual([[secret, type]])
  })

  test.each(HARMLESS)('not in %j', (text) => {
    expect(found(text)).toEqual([])
  })

  test('several in one text are found in order and separately', () => {
    const text = SECRETS.map(([one]) => one).join('\n\n')
    const findings = detector.find(text)
    expect(findings.map(({ start, end }) => text.slice(start, end))).toEqual(SECRETS.map(([, secret]) => secret))
  })

  test('a finding contains position and type, never the value', () => {
    for (const [text, secret] of SECRETS) {
      const said = JSON.stringify(detector.find(text))
      expect(said).not.toContain(secret.slice(-8))
    }
  })

  test('a text cannot disable scanning', () => {
    const [[text]] = SECRETS as [(typeof SECRETS)[number]]
    expect(found(`secretlint-disable\n${text}\nsecretlint-enable`)).toHaveLength(1)
    expect(found(`# secretlint-disable-next-line\n${text}`)).toHaveLength(1)
  })

  test('secrets that only secretlint knows are found', () => {
    expect(found('it begins with xoxp-1-initial-2x and so on')).toEqual([['xoxp-1-initial-2x', 'slack']])
  })
})

describe('secrets in pieces', () => {
  test.each([
    ["It's raining, and they don't ", ''],
    ['He said "come in", and "sit ', ''],
    ['const name = "a long ', ''],
    ['password = "a long ', 'a long '],
    ['a word', 'word'],
  ])('of %j only %j is held back', (text, waiting) => {
    expect(text.slice(detector.openFrom(text))).toBe(waiting)
  })

  test.each([...SECRETS.map(([text]) => text), ...HARMLESS])('of %j', (text) => expectIncremental(detector, text))

  test('of texts of all relevant characters', () => {
    const piece = fc.oneof(
      fc.constantFrom(...SECRETS.map(([text]) => text), ...SECRETS.map(([, secret]) => secret)),
      fc.constantFrom(...HARMLESS),
      fc.constantFrom(
        '"',
        "'",
        '`',
        ' ',
        '\n',
        '=',
        ': ',
        '://',
        '@',
        '-----BEGIN ',
        'PRIVATE KEY-----',
        'token',
        'é',
        '😀',
      ),
      fc.string({ maxLength: 12 }),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 4 }), (pieces) => {
        const text = pieces.join('')
        fc.pre(text.length < 700)
        expectIncremental(detector, text)
      }),
      { numRuns: 40 },
    )
  })
})
