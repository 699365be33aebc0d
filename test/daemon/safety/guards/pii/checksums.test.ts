import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isCardNumber } from '../../../../../src/daemon/safety/guards/pii/cards.ts'
import {
  isAadhaar,
  isCodiceFiscale,
  isCpf,
  isDniOrNie,
  isNhsNumber,
  isNir,
  isSteuerId,
  passesLuhn,
} from '../../../../../src/daemon/safety/guards/pii/checksums.ts'
import { readIban } from '../../../../../src/daemon/safety/guards/pii/ibans.ts'
import { isInternationalNumber, isNationalNumber } from '../../../../../src/daemon/safety/guards/pii/numbering-plans.ts'
import { isWalletAddress } from '../../../../../src/daemon/safety/guards/pii/wallets.ts'

const NUMBERS: readonly (readonly [name: string, isValid: (value: string) => boolean, values: readonly string[]])[] = [
  [
    'card',
    isCardNumber,
    [
      '4111111111111111',
      '5555555555554444',
      '2223003122003222',
      '378282246310005',
      '30569309025904',
      '6011111111111117',
      '3530111333300000',
      '6304000000000000',
    ],
  ],
  [
    'IBAN',
    (value) => readIban(value, 0)?.isValid === true,
    ['DE89370400440532013000', 'GB29NWBK60161331926819', 'NO9386011117947', 'MT84MALT011000012345MTLCAST001S'],
  ],
  ['NHS number', isNhsNumber, ['9434765919', '4010232137']],
  ['CPF', isCpf, ['39053344705', '11144477735', '52998224725']],
  ['Aadhaar', isAadhaar, ['234123412346']],
  ['Steuer-ID', (value) => isSteuerId(value, false), ['86095742719', '79608434120']],
  ['NIR', isNir, ['184127645108946', '295109912611193']],
  ['DNI or NIE', isDniOrNie, ['12345678Z', 'X1234567L', 'Y2812345B']],
  ['codice fiscale', isCodiceFiscale, ['RSSMRA45C12F205C', 'CNTCHR83T41D969D', 'RSSMRAQRCMNFNLRG']],
  [
    'wallet',
    isWalletAddress,
    [
      '1BoatSLRHtKNngkdXEeobR76b53LETtpyT',
      '3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy',
      'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq',
      'bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr',
    ],
  ],
]

test.each(NUMBERS)('a valid %s passes', (_name, isValid, values) => {
  for (const value of values) expect(isValid(value), value).toBe(true)
})

// A remainder of 10 and one of 0 give a CPF the same check digit.
test.each(NUMBERS.filter(([name]) => name !== 'CPF'))(
  'a %s with one digit changed does not pass',
  (_name, isValid, values) => {
    const change = fc.tuple(fc.constantFrom(...values), fc.nat(), fc.integer({ min: 1, max: 9 }))
    fc.assert(
      fc.property(change, ([value, place, step]) => {
        const digits = [...value.matchAll(/\d/g)].map(({ index }) => index)
        // A letter that stands for a digit does not count as a letter, and some numbers contain only letters.
        fc.pre(digits.length > 0)
        const at = digits[place % digits.length]!
        const changed = `${value.slice(0, at)}${(Number(value[at]) + step) % 10}${value.slice(at + 1)}`
        expect(isValid(changed), changed).toBe(false)
      }),
    )
  },
)

test('a CPF needs both check digits, and more than one digit', () => {
  expect(['39053344715', '39053344704', '11111111111', '00000000000'].filter(isCpf)).toEqual([])
})

test('Luhn detects every changed digit, and all check digits but one are wrong', () => {
  const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 2, maxLength: 30 })
  fc.assert(
    fc.property(digits, (body) => {
      expect([...'0123456789'].filter((check) => passesLuhn(body + check))).toHaveLength(1)
    }),
  )
})

test('a number belongs to a plan by its country code, or by its region without one', () => {
  expect(isInternationalNumber('442079460958')).toBe(true)
  expect(isInternationalNumber('4402079460958')).toBe(true)
  expect(isInternationalNumber('80012345678')).toBe(true)
  expect(isInternationalNumber('999123456789')).toBe(false)
  expect(isNationalNumber('02079460958', ['GB'])).toBe(true)
  expect(isNationalNumber('442079460958', ['GB'])).toBe(true)
  expect(isNationalNumber('02079460958', ['US'])).toBe(false)
  expect(isNationalNumber('02079460958', ['??'])).toBe(false)
})
