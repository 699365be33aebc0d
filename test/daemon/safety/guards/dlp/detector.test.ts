import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createDlpDetector, DLP_DETECTORS } from '../../../../../src/daemon/safety/guards/dlp/detector.ts'
import { expectIncremental } from '../incremental.ts'
import { HARMLESS, SECRETS } from './samples.ts'

const detector = createDlpDetector(Object.values(DLP_DETECTORS).map((create) => create()))

test('finds the results of each of its detectors', () => {
  const findings = detector.find(`CONFIDENTIAL\npassword = "tr0ub4dor&3"\n`)
  expect(findings.map(({ type }) => type)).toEqual(['document-marking', 'password'])
})

test('keeps the first of overlapping findings', () => {
  const program = [
    'function open() {',
    '  const a = 1;',
    '  const b = 2;',
    '  const password = "tr0ub4dor&3";',
    '  return a + b;',
    '}',
  ].join('\n')
  expect(detector.find(`${program}\n`).map(({ type }) => type)).toEqual(['source-code'])
})

test('without detectors finds nothing, and holds no text back', () => {
  const none = createDlpDetector([])
  expect([none.find('password = "tr0ub4dor&3"'), none.openFrom('password = "')]).toEqual([[], 12])
})

test('finds the same in pieces of any text', () => {
  const piece = fc.oneof(
    fc.constantFrom(...SECRETS.map(([text]) => text), ...HARMLESS),
    fc.constantFrom(
      'CONFIDENTIAL',
      'Vertraulich',
      'const a = 1;\n',
      'if (a) {\n',
      '}\n',
      '\n',
      '"',
      ' ',
      '-----BEGIN ',
    ),
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const text = pieces.join('')
      fc.pre(text.length < 500)
      expectIncremental(detector, text)
    }),
    { numRuns: 40 },
  )
})
