import fc from 'fast-check'
import { expect, test } from 'vitest'
import { maskOf } from '../../../../../src/daemon/safety/guards/pii/mask.ts'
import { PII_ENTITIES } from '../../../../../src/shared/pii-entities.ts'

test.each([
  ['EMAIL', 'jane.doe+x@example.com', '****.***+*@e******.com'],
  ['EMAIL', 'jane@mail.example.co.uk', '****@m***.*******.**.uk'],
  ['EMAIL', 'jane@x.com', '****@*.com'],
  ['EMAIL', 'no address', '** *******'],
  ['CREDIT_CARD', '4111 1111 1111 1234', '**** **** **** 1234'],
  ['CREDIT_CARD', '378282246310005', '***********0005'],
  ['IBAN', 'DE89 3704 0044 0532 0130 00', '**** **** **** **** **** **'],
  ['PERSON', 'Zoë O’Neill', '*** *’*****'],
  ['PERSON', '𝒜lice', '*****'],
  ['DATE_OF_BIRTH', '04/05/1985', '**/**/****'],
  ['aws-access-key', 'whatever', '[AWS_ACCESS_KEY]'],
])('a %s is masked according to its type', (type, value, mask) => {
  expect(maskOf(type, value)).toBe(mask)
})

test('a masked value shows only the edges of a domain and the end of a card, and masking is idempotent', () => {
  const entity = fc.constantFrom(...PII_ENTITIES.map(({ name }) => name))
  fc.assert(
    fc.property(entity, fc.string({ unit: 'grapheme' }), (type, value) => {
      const mask = maskOf(type, value)
      expect(maskOf(type, mask)).toBe(mask)
      if (type !== 'EMAIL' && type !== 'CREDIT_CARD') expect(mask).not.toMatch(/[\p{L}\p{N}]/u)
      if (type === 'CREDIT_CARD') expect(mask.match(/\d/g)?.length ?? 0).toBeLessThanOrEqual(4)
    }),
  )
})
