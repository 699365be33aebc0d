import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createPiiDetector } from '../../../../../src/daemon/safety/guards/pii/detector.ts'
import { DEFAULT_PII_ENTITIES, PII_ENTITIES, type PiiEntity } from '../../../../../src/shared/pii-entities.ts'
import { expectIncremental } from '../incremental.ts'
import { SAMPLES } from './samples.ts'

const all = createPiiDetector({ entities: 'all' })
const byDefault = createPiiDetector()
const sentences = Object.values(SAMPLES).flat()
const samples = Object.entries(SAMPLES).flatMap(([type, rows]) => rows.map((row) => [type, ...row] as const))

function found(text: string, detector = all): string[] {
  return detector.find(text).map(({ type, start, end }) => `${type} ${text.slice(start, end)}`)
}

test.each(samples)('a %s is found in «%s»', (type, sentence, value) => {
  expect(found(sentence)).toContain(`${type} ${value}`)
})

test.each(samples)('a detector of %s alone finds it in «%s»', (type, sentence, value) => {
  const only = createPiiDetector({ entities: [type as PiiEntity] })
  expect(found(sentence, only)).toEqual([`${type} ${value}`])
})

test('every offered entity is found by its own example', () => {
  for (const { name, example } of PII_ENTITIES) {
    expect(found(example, createPiiDetector({ entities: [name] })).map((each) => each.split(' ')[0])).toEqual([name])
  }
})

test('the default set has every checksum and no heuristic', () => {
  const classes = PII_ENTITIES.filter(({ name }) => DEFAULT_PII_ENTITIES.includes(name)).map((each) => each.class)
  expect(classes).not.toContain('heuristic')
  expect(PII_ENTITIES.filter((each) => each.class === 'checksum' && !each.byDefault)).toEqual([])
})

test.each([
  ['a wrong check digit of a card', '4111 1111 1111 1112'],
  ['a card of no issuer', '9999 9999 9999 9995'],
  ['a wrong check digit of an IBAN', 'DE88 3704 0044 0532 0130 00'],
  ['a country without IBANs', 'US89370400440532013000'],
  ['an SSN of area 666', 'ssn 666-12-1234'],
  ['an SSN of group 00', '536-00-4399'],
  ['a NINO of a prefix that is not given out', 'BG 12 34 56 C'],
  ['a DNI with the wrong letter', '12345678A'],
  ['a CPF of one digit', '111.111.111-11'],
  ['a wrong check letter of a codice fiscale', 'RSSMRA45C12F205D'],
  ['a codice fiscale of day 32', 'CNTCHR83T32D969H'],
  ['a wrong check digit of an Aadhaar', '2341 2341 2347'],
  ['a Bitcoin address with a letter changed', '1BoatSLRHtKNngkdXEeobR76b53LETtpyU'],
  ['a part of a longer number', '94111111111111111112'],
  ['a decimal', '0.4111111111111111'],
  ['a hash', 'd41d8cd98f00b204e9800998ecf8427e'],
  ['a UUID', '550e8400-e29b-41d4-a716-446655440000'],
  ['a version', 'v10.20.30.40'],
  ['a namespace', 'std::vector a::b ace::bad'],
  ['a file', 'icon@2x.png'],
  ['a package', 'npm i react@18.2.0 @scope/pkg@1.0.0'],
  ['a timestamp', '1700000000000 20231105 12:30:45'],
  ['a passport without a number', 'my passport was lost on board 12 days ago'],
  ['a price', '$ 1,234,567.89 and €4111111111111111'],
  ['a row of numbers', '1 2 3 4 5 6 7 8 9 10 11 12'],
  ['a diff', '@@ -10,7 +10,8 @@'],
])('%s is not personal data', (_what, text) => {
  expect(found(text, byDefault)).toEqual([])
})

test.each([
  'contact@acme.co',
  'Info@firma.de',
  'support+4711@example.org',
  'no-reply@mail.example.com',
  'crawler-team@company.com',
  'security@example.com',
])('%s is an impersonal mailbox: it is found only if e-mail addresses are requested by name', (address) => {
  const text = `Write to ${address} about it.`
  expect(found(text, byDefault)).toEqual([])
  expect(found(text, createPiiDetector({ entities: ['EMAIL'] }))).toEqual([`EMAIL ${address}`])
  expect(found(text, all)).toContain(`EMAIL ${address}`)
  expectIncremental(byDefault, text)
})

test.each(['alice@example.com', 'test@example.com', 'jane.support@acme.co', 'team.lead@acme.co', 'supporter@acme.co'])(
  '%s is personal',
  (address) => {
    expect(found(`Write to ${address} about it.`, byDefault)).toEqual([`EMAIL ${address}`])
  },
)

test('a number of two alternating digits is invalid, unless it is formatted as a phone number', () => {
  expect(found("{ name: 'Jone', phone: 201090909090 }", byDefault)).toEqual([])
  expect(found("{ name: 'Jone', phone: 201090909091 }", byDefault)).toEqual(['PHONE 201090909091'])
  expect(found('phone: +201090909090', byDefault)).toEqual(['PHONE +201090909090'])
  expect(found('phone: 5555555555', byDefault)).toEqual(['PHONE 5555555555'])
})

test('a national number is found only if its region is configured', () => {
  const digits = 'dial 79460958 or 20794609580'
  expect(found('id 2079460958', createPiiDetector({ regions: ['GB'] }))).toEqual(['PHONE 2079460958'])
  expect(found('id 2079460958', byDefault)).toEqual([])
  expect(found(digits, createPiiDetector({ regions: [] }))).toEqual(['PHONE 79460958'])
})

test('a request for dates includes dates of birth', () => {
  const dates = createPiiDetector({ entities: ['DATE'] })
  expect(found('born on 2/8/1935, moved on 3/9/1951', dates)).toEqual(['DATE 2/8/1935', 'DATE 3/9/1951'])
  expect(found('lodash 4.17.21', dates)).toEqual([])
})

test('of two overlapping findings the more certain one is kept', () => {
  expect(found('card: 4111 1111 1111 1111')).toEqual(['CREDIT_CARD 4111 1111 1111 1111'])
  expect(found('https://jane.doe@example.com/')).toHaveLength(1)
})

test('findings contain offsets, a type and a confidence, and no value', () => {
  const text = sentences.map(([sentence]) => sentence).join('\n')
  for (const finding of all.find(text)) {
    expect(Object.keys(finding).sort()).toEqual(['confidence', 'end', 'start', 'type'])
    expect(finding.confidence).toBeGreaterThan(0)
    expect(finding.confidence).toBeLessThanOrEqual(1)
  }
})

test.each(samples)('%s: text in pieces gives the same findings as the complete text: «%s»', (_type, sentence) => {
  expectIncremental(all, `So: ${sentence} That was it, and there is more.`)
  expectIncremental(byDefault, sentence)
})

test('sentences in any order with any separators give the same findings in pieces', () => {
  const separator = fc.constantFrom(' ', '\n', ', ', '', '. ', ' - ', '"', '\t', ' and ', ' é😀')
  const part = fc
    .tuple(fc.constantFrom(...sentences.map(([sentence]) => sentence)), separator)
    .map((pair) => pair.join(''))
  fc.assert(
    fc.property(fc.array(part, { minLength: 2, maxLength: 4 }), (parts) => {
      expectIncremental(all, parts.join(''))
      expectIncremental(byDefault, parts.join(''))
    }),
    { numRuns: 60 },
  )
})

test('random digits, letters and separators give the same findings in pieces', () => {
  const unit = fc.constantFrom(
    ..."0123456789 -./():+@#xABGX,\n'’",
    '12',
    'GB',
    'Anna',
    'Street',
    'on ',
    'May ',
    'tel ',
    'in ',
    '::',
    'é',
  )
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 90 }), (text) => {
      expectIncremental(all, text)
      expectIncremental(byDefault, text)
    }),
    { numRuns: 200 },
  )
})

test('findings are sorted, separate, within the text and never split a character', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constantFrom(...sentences.map(([sentence]) => sentence)), fc.string({ unit: 'grapheme' }))),
      (parts) => {
        const text = parts.join(' ')
        let last = 0
        for (const { start, end } of all.find(text)) {
          expect(start).toBeGreaterThanOrEqual(last)
          expect(end).toBeGreaterThan(start)
          expect(() => encodeURIComponent(text.slice(start, end))).not.toThrow()
          last = end
        }
        expect(last).toBeLessThanOrEqual(text.length)
      },
    ),
  )
})
