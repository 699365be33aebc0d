import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createDlpDetector, DLP_DETECTORS } from '../../../../../src/daemon/safety/guards/dlp/detector.ts'
import { createPiiDetector } from '../../../../../src/daemon/safety/guards/pii/detector.ts'
import { type ArmedDetector, screenText } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { createOutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'
import { throughView } from '../../../../../src/daemon/safety/guards/view/viewed-detector.ts'
import { expectIncremental } from '../incremental.ts'
import { cutAnywhere, END, runGuard, saidBy } from '../stream/answers.ts'
import { ADDRESS_SPELLINGS, GROUP_SPELLINGS, SPELLINGS, type Spelling, TOKEN_SPELLINGS } from './spellings.ts'

const pii = throughView(createPiiDetector())
const dlp = throughView(createDlpDetector([DLP_DETECTORS.secrets(), DLP_DETECTORS['document-markings']()]), {
  readsTokens: true,
})
const armed: ArmedDetector[] = [
  { guard: 'pii', detector: pii, actionOf: () => 'mask' },
  { guard: 'dlp', detector: dlp, actionOf: () => 'mask' },
]

const TOKEN = ['ghp', 'Zx81mQ2vLw93kT5rYb7NcD4sHf6PjA0eUgXi'].join('_')
const VALUES: [type: string, value: string, spellings: readonly Spelling[]][] = [
  ['CREDIT_CARD', '4111 1111 1111 1111', [...SPELLINGS, ...GROUP_SPELLINGS]],
  ['CREDIT_CARD', '5500-0000-0000-0004', [...SPELLINGS, ...GROUP_SPELLINGS]],
  ['CREDIT_CARD', '3782 822463 10005', [...SPELLINGS, ...GROUP_SPELLINGS]],
  ['IBAN', 'DE89 3704 0044 0532 0130 00', [...SPELLINGS, ...GROUP_SPELLINGS]],
  ['US_SSN', '536-90-4399', [...SPELLINGS, ...GROUP_SPELLINGS]],
  ['EMAIL', 'ada.lovelace@analytical.org', [...SPELLINGS, ...ADDRESS_SPELLINGS]],
  ['github-token', TOKEN, [...SPELLINGS, ...TOKEN_SPELLINGS]],
]
const CASES = VALUES.flatMap(([type, value, spellings]) =>
  spellings.map(({ name, write }) => [type, name, write(value)] as const),
)
const FRAMES = [
  (value: string) => value,
  (value: string) => `The value is ${value} and nothing else.`,
  (value: string) => `Dear team,\n\nhere it is:\n${value}\nThank you.`,
]

describe('a value is found and masked, however it is written', () => {
  test.each(CASES)('%s %s: %s', (type, _, written) => {
    for (const frame of FRAMES) {
      const { hits, text } = screenText(frame(written), 'text', armed)
      expect(hits.map((hit) => hit.type)).toContain(type)
      // No view of the masked text still shows the value.
      expect(screenText(text, 'text', armed).hits.filter((hit) => hit.type === type)).toEqual([])
      expect(text.length).toBeGreaterThan(0)
    }
  })
})

const written = fc
  .tuple(fc.constantFrom(...CASES), fc.constantFrom(...FRAMES))
  .map(([[, , value], frame]) => frame(value))

test('the findings of a text that arrives in pieces are those of the whole text', () => {
  fc.assert(
    fc.property(written, (text) => {
      for (const detector of [pii, dlp]) expectIncremental(detector, text)
    }),
    { numRuns: 250 },
  )
})

test('a value in a stream is masked for any split into pieces, and the rest of the text arrives', () => {
  fc.assert(
    fc.property(written, fc.array(fc.nat(), { maxLength: 40 }), (text, cuts) => {
      const whole = screenText(text, 'text', armed)
      const guard = createOutputGuard({ armed })
      const chunks = cutAnywhere(text, cuts).map((piece) => [{ type: 'text', text: piece } as const])
      const { out } = runGuard(guard, [...chunks, [END]])
      expect(saidBy(out).get('text')).toBe(whole.text)
      expect(guard.hits).toEqual(whole.hits)
    }),
    { numRuns: 1500 },
  )
})

test.each([
  ['dates', '2024-01-15\n2024-02-15\n2024-03-15\n2024-04-15'],
  ['heap sizes', 'heapUsed: 4294967296\nheapTotal: 8589934592\nexternal: 17179869184'],
  [
    'hashes',
    'commit 4532015112830366a9b1c2d3e4f5061728394a5b\nsha256:4532015112830366453201511283036645320151128303664532015112830366',
  ],
  ['a table', '4111 1111\n1111 1111\n4500 1200\n4600 1300'],
  ['a column', '4111\n1111\n1111\n1111\n2500\n2600'],
  ['versions', 'v4.11.11111 and 123.45.6789-beta of 1.2.3'],
  ['sizes', '4.294.967.296 bytes, 10 000 000 of 12 000 000'],
  ['a matrix', '0 1 0 0 1 1 0 1\n1 0 0 1 0 1 1 0'],
  ['UUIDs', '3f2504e0-4f89-11d3-9a0c-0305e82c3301'],
  ['a colour list', '12, 34, 56, 78, 90, 12, 34, 56, 78'],
  ['mentions', 'Ask @ada. See @types/node and meet @ noon.'],
  ['base64 of bytes', Buffer.from(Array.from({ length: 60 }, (_, at) => (at * 89 + 7) % 256)).toString('base64')],
])('%s are left alone', (_, text) => {
  expect(screenText(text, 'text', armed).hits).toEqual([])
})
