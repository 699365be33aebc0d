import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createMarkingsDetector } from '../../../../../src/daemon/safety/guards/dlp/markings.ts'
import { expectIncremental } from '../incremental.ts'

const detector = createMarkingsDetector()
const found = (text: string) => detector.find(text).map(({ start, end }) => text.slice(start, end))

const MARKED: readonly (readonly [text: string, marking: string])[] = [
  ['CONFIDENTIAL\n\nMinutes of the board', 'CONFIDENTIAL'],
  ['This report is STRICTLY CONFIDENTIAL and numbered.', 'STRICTLY CONFIDENTIAL'],
  ['  ** Internal use only **\nQ3', 'Internal use only'],
  ['Classification: restricted', 'restricted'],
  ['[Draft – privileged]\n', 'Draft – privileged'],
  ['Streng vertraulich\nProtokoll', 'Streng vertraulich'],
  ['— Usage interne —', 'Usage interne'],
  ['Página 3\nUSO INTERNO\n', 'USO INTERNO'],
  ['Riservato.\nBilancio', 'Riservato'],
  ['社外秘\n第3四半期', '社外秘'],
  ['Строго конфиденциально\nОтчёт', 'Строго конфиденциально'],
]

const UNMARKED: readonly string[] = [
  'Please keep this confidential, as we agreed.',
  'A confidential client cannot hold a secret.',
  'Access is restricted to members.',
  'Das ist vertraulich zu behandeln.',
  'const CONFIDENTIAL = 3',
  'Level.RESTRICTED or OAUTH_CONFIDENTIAL',
  'confidential_client: true',
  'Il tavolo è riservato a nome Rossi.',
]

describe('marks of confidential documents', () => {
  test.each(MARKED)('%j', (text, marking) => expect(found(text)).toEqual([marking]))
  test.each(UNMARKED)('not in %j', (text) => expect(found(text)).toEqual([]))
  test.each([...MARKED.map(([text]) => text), ...UNMARKED])('in pieces of %j', (text) => {
    expectIncremental(detector, text)
  })

  test('in pieces of any of them together', () => {
    const piece = fc.constantFrom(...MARKED.flat(), ...UNMARKED, '\n', ' ', ': ', 'x', '-', '機密')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 5 }), (pieces) => expectIncremental(detector, pieces.join(''))),
      { numRuns: 60 },
    )
  })
})
