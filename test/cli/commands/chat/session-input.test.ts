import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createFolding } from '../../../../src/cli/commands/chat/session/folding.ts'
import { addLine, type MessageSoFar } from '../../../../src/cli/commands/chat/session/message-lines.ts'
import { createPasteSplitter } from '../../../../src/cli/commands/chat/session/paste.ts'

const inPieces = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 })

function cut(text: string, sizes: number[]): string[] {
  const pieces: string[] = []
  for (let at = 0, turn = 0; at < text.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    pieces.push(text.slice(at, at + size))
    at += size
  }
  return pieces
}

describe('the input of a terminal', () => {
  const words = fc.string({ unit: fc.constantFrom('a', '[', '2', '0', '~', '\n', 'é') })

  test('is split into keys and pastes, wherever a chunk ends', () => {
    fc.assert(
      fc.property(words, words, words, inPieces, (before, pasted, after, sizes) => {
        const splitter = createPasteSplitter()
        const input = `${before}\x1b[200~${pasted}\x1b[201~${after}\x1b[A`
        // A lone escape at the end of a chunk is the escape key, so a paste never begins with a cut right behind it.
        const chunks = cut(input, sizes).join('\0').replaceAll('\x1b\0', '\x1b').split('\0')
        const pieces = chunks.flatMap((chunk) => splitter.push(chunk))
        const textOf = (kind: string) => pieces.filter((piece) => piece.kind === kind).map(({ text }) => text)
        expect(textOf('paste')).toEqual([pasted])
        expect(textOf('keys').join('')).toBe(`${before}${after}\x1b[A`)
      }),
    )
  })

  test('holds no key back', () => {
    const splitter = createPasteSplitter()
    expect(splitter.push('\x1b')).toEqual([{ kind: 'keys', text: '\x1b' }])
    expect(splitter.push('x')).toEqual([{ kind: 'keys', text: 'x' }])
  })
})

describe('folding', () => {
  test('gives back each text in its place, also several and the same twice', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom('a', ']', '[', '#', '1', '\n', '\t', '\x1b') })),
        (texts) => {
          const { fold, unfold } = createFolding()
          const line = texts.map((text) => fold(`${text}\n`)).join(' and ')
          expect(line).not.toMatch(/[\x00-\x1f\x7f-\x9f]/)
          expect(unfold(line)).toBe(texts.map((text) => `${text}\n`).join(' and '))
        },
      ),
    )
  })

  test('leaves a plain line, and what only looks like a label', () => {
    const { fold, unfold } = createFolding()
    expect(fold('plain [x]')).toBe('plain [x]')
    expect(unfold('see [#1 2 lines: a…]')).toBe('see [#1 2 lines: a…]')
  })
})

describe('a message', () => {
  const message = (...lines: string[]) => lines.reduce<MessageSoFar | undefined>(addLine, undefined)

  test.each([
    [['a'], 'a', false],
    [['a\\', 'b'], 'a\nb', false],
    [['a\\'], 'a', true],
    [['"""a"""'], 'a', false],
    [['"""', 'a', 'b', '"""'], 'a\nb', false],
    [['"""a', 'b\\', '"""'], 'a\nb\\', false],
    [['"""', 'a "" b'], '"""\na "" b', true],
    [['"""'], '"""', true],
  ])('of the lines %j', (lines, text, isOpen) => {
    expect(message(...lines)).toEqual({ text, isOpen })
  })
})
