import fc from 'fast-check'
import { expect, test } from 'vitest'
import { codeUnitsOf } from '../../../../src/daemon/platform/text/code-units.ts'

const indexTermsOf = (text: string) => Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))

test('the code units of a text are those that charCodeAt returns, including lone surrogates', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (one, other) => {
      const text = `${one}\ud83d${other}\ude00é`
      expect([...codeUnitsOf(text).subarray(0, text.length)]).toEqual(indexTermsOf(text))
    }),
  )
})

test('a text of any length has all of its code units', () => {
  for (const length of [0, 32_767, 32_768, 32_769, 100_000]) {
    const text = 'aé機'.repeat(length).slice(0, length)
    expect([...codeUnitsOf(text).subarray(0, length)]).toEqual(indexTermsOf(text))
  }
})
