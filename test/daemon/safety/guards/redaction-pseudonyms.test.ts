import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ChatPart } from '../../../../src/daemon/models/provider.ts'
import { createPseudonyms, type Pseudonyms } from '../../../../src/daemon/safety/guards/pseudonyms.ts'
import { OutputBlocked } from '../../../../src/daemon/safety/guards/stream/output-blocked.ts'
import { createOutputGuard } from '../../../../src/daemon/safety/guards/stream/output-guard.ts'
import { cutAnywhere, END, runGuard, saidBy } from './stream/answers.ts'
import { armAll } from './stream/sample-detectors.ts'

const key = Buffer.alloc(32, 5)
const create = (texts: string[] = [], tenantId = 't1') => createPseudonyms({ key, tenantId, texts })
const answer = (pseudonyms: Pseudonyms, chunks: string[], toPart: (chunk: string) => ChatPart): string => {
  const guard = createOutputGuard({ armed: armAll(() => 'tokenize'), pseudonyms })
  const { out } = runGuard(guard, [...chunks.map((chunk) => [toPart(chunk)]), [END]])
  return [...saidBy(out).values()].join('')
}
const asText = (text: string): ChatPart => ({ type: 'text', text })
const asReasoning = (text: string): ChatPart => ({ type: 'reasoning', text })
const asCall = (pieces: string): ChatPart => ({ type: 'tool_call', index: 0, arguments: pieces })

test('a value has the same pseudonym in every request of a tenant, and another one in another tenant', () => {
  const pseudonym = create().of('EMAIL', 'jane@x.com')
  expect(pseudonym).toMatch(/^EMAIL_([b-z][2-9]){5}$/)
  expect(create().of('EMAIL', 'jane@x.com')).toBe(pseudonym)
  const others = [
    create([], 't2').of('EMAIL', 'jane@x.com'),
    create().of('EMAIL', 'Jane@x.com'),
    create().of('URL', 'jane@x.com'),
  ]
  expect(new Set([pseudonym, ...others].map((one) => one.slice(-10))).size).toBe(4)
})

test('two values of a request never share a pseudonym', () => {
  const pseudonyms = create()
  const codes = Array.from({ length: 5_000 }, (_, at) => pseudonyms.of('PHONE', String(at)))
  expect(new Set(codes).size).toBe(codes.length)
})

test('a pseudonym that occurs in the request is not used, so that callers cannot have it restored to a value', () => {
  const usual = create().of('EMAIL', 'jane@x.com')
  const pseudonyms = create([`who is ${usual.toUpperCase()}?`])
  expect(pseudonyms.of('EMAIL', 'jane@x.com')).not.toBe(usual)
  expect(answer(pseudonyms, [`${usual} is unknown`], asText)).toBe(`${usual} is unknown`)
})

test('pseudonyms of the request are restored in every channel, for any chunks, and others are not', () => {
  const name = fc.constantFrom('jane@x.com', '"quoted" \\ and\nlines', '123-45-6789', '𝒳é')
  const piece = fc.oneof(
    name.map((value) => ({ value })),
    fc.constantFrom(' ', 'no', 'E', 'EMAIL', 'EMAIL_', 'EMAIL_b2c3', '_', '.', 'URL_').map((words) => ({ words })),
  )
  fc.assert(
    fc.property(
      fc.array(piece),
      fc.array(fc.nat()),
      fc.constantFrom(asText, asReasoning, asCall),
      (pieces, cuts, toPart) => {
        const pseudonyms = create()
        const foreign = create([], 't2').of('EMAIL', 'jane@x.com')
        const isCall = toPart === asCall
        const spell = (text: string) => (isCall ? JSON.stringify(text).slice(1, -1) : text)
        const frame = (text: string) => (isCall ? `["${text}"]` : text)
        const said = pieces
          .map((one) => ('value' in one ? ` ${pseudonyms.of('EMAIL', one.value)}` : one.words))
          .join('')
        const meant = pieces.map((one) => ('value' in one ? ` ${spell(one.value)}` : one.words)).join('')
        const chunks = cutAnywhere(frame(`${said} ${foreign}`), cuts)
        expect(answer(pseudonyms, chunks, toPart)).toBe(frame(`${meant} ${foreign}`))
      },
    ),
    { numRuns: 300 },
  )
})

test('a pseudonym is restored even if Markdown, JSON or another case changed it', () => {
  const pseudonyms = create()
  const pseudonym = pseudonyms.of('CREDIT_CARD', '4111 1111 1111 1111')
  const spelled = [pseudonym.replaceAll('_', '\\_'), pseudonym.toLowerCase(), pseudonym.toUpperCase()]
  for (const one of spelled) expect(answer(pseudonyms, [...`**${one}**`], asText)).toBe('**4111 1111 1111 1111**')
  const escaped = `{"to": "${pseudonym.replace('_', '\\u005f')}"}`
  expect(answer(pseudonyms, [...escaped], asCall)).toBe('{"to": "4111 1111 1111 1111"}')
})

const NAMES = {
  find: (text: string) =>
    Array.from(text.matchAll(/NUMBER/g), ({ index }) => ({ start: index, end: index + 6, type: 'n', confidence: 1 })),
  openFrom: (text: string) => text.length,
}

test('a guard that matches the pseudonym itself leaves it unchanged', () => {
  const pseudonyms = create()
  const pseudonym = pseudonyms.of('NUMBER', 'twelve')
  const armed = [{ guard: 'sample', detector: NAMES, actionOf: () => 'mask' as const }, ...armAll(() => 'mask')]
  const guard = createOutputGuard({ armed, pseudonyms })
  expect(guard.pass([asText(`${pseudonym}, NUMBER 12345`), END])).toEqual([asText('twelve, [N] [DIGITS]'), END])
})

test.each([
  ['mask', 1],
  ['remove', 1],
  ['tokenize', 0],
  ['log', 0],
] as const)('an output rule to %s applies even if a pseudonym stands for the value', (action, hits) => {
  for (const armed of [
    armAll(() => action),
    // A value that needs context words to be found is identified by its type.
    [
      {
        guard: 'sample',
        detector: { find: () => [], openFrom: NAMES.openFrom, types: ['EMAIL'] },
        actionOf: () => action,
      },
    ],
  ]) {
    const pseudonyms = create()
    const pseudonym = pseudonyms.of('EMAIL', '12345')
    const guard = createOutputGuard({ armed, pseudonyms })
    const { out } = runGuard(guard, [...`It is ${pseudonym}.`].map((chunk) => [asText(chunk)]).concat([[END]]))
    const said = saidBy(out).get('text')
    if (hits === 0) expect(said).toBe('It is 12345.')
    else expect(said).toMatch(action === 'mask' ? /^It is (?:[*_]+|\[DIGITS\])\.$/ : /^It is …\.$/)
    expect(guard.hits.length).toBe(hits)
  }
})

test('an answer that would restore a value that an output rule blocks is blocked', () => {
  const pseudonyms = create()
  const pseudonym = pseudonyms.of('EMAIL', '12345')
  const guard = createOutputGuard({ armed: armAll(() => 'block'), pseudonyms })
  expect(() => guard.pass([asText(`It is ${pseudonym}.`), END])).toThrow(OutputBlocked)
})

test('words that start like a pseudonym are held back only while they may become one', () => {
  const pseudonyms = create()
  pseudonyms.of('EMAIL', 'jane@x.com')
  const open = (text: string) => text.slice(pseudonyms.openFrom(text))
  expect(['the', 'an email', 'to EMAIL_b2', 'to EMAIL_b2c3d4f5g6', 'to EMAIL_22', 'EMAIL_me'].map(open)).toEqual([
    '',
    'email',
    'EMAIL_b2',
    '',
    '',
    '',
  ])
})
