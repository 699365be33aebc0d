import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { forTerminal, forTerminalLine, terminalText } from '../../../src/cli/output/terminal-text.ts'

/** Text made mostly of what terminals react to. */
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom('\x1b', '[', ']', 'P', 'X', '^', '_', '\\', '\x07', '\x9b', '\x9d', '\x90', '\x9c', '\x18', ';'),
      fc.constantFrom('\n', '\r', '\t', '\b', '\0', '\x7f', '31m', '0;owned', '52;c;', 'é', '日本', '🙂', ' '),
      fc.string({ maxLength: 4 }),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(''))

describe('text of others on a terminal', () => {
  test.each([
    ['colour', 'a\x1b[31mb', 'ab'],
    ['a window title that BEL ends', 'a\x1b]0;owned\x07b', 'ab'],
    ['a clipboard write that ST ends', 'a\x1b]52;c;cm0gLXJm\x1b\\b', 'ab'],
    ['a device control string', 'a\x1bPq#0\x1b\\b', 'ab'],
    ['an application command', 'a\x1b_Gf=100;AAAA\x1b\\b', 'ab'],
    ['8-bit CSI', 'a\x9b2Jb', 'ab'],
    ['8-bit OSC with 8-bit ST', 'a\x9d0;x\x9cb', 'ab'],
    ['a charset switch', 'a\x1b(0b', 'ab'],
    ['a full reset', 'a\x1bcb', 'ab'],
    ['backspace, bell, NUL and DEL', 'a\b\x07\0\x7fb', 'ab'],
    ['a mark that reverses the line', 'photo_\u202egpj.exe', 'photo_gpj.exe'],
    ['other marks of direction', '\u061ca\u200e\u200f\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069b', 'ab'],
    ['a carriage return that would overwrite the line', 'real\rfake', 'realfake'],
  ])('%s is dropped', (_, text, shown) => {
    expect(forTerminal(text)).toBe(shown)
  })

  test('newlines, tabs and every letter stay', () => {
    expect(forTerminal('a\n\tb é 日本 🙂 \u200d')).toBe('a\n\tb é 日本 🙂 \u200d')
  })

  test('an opener that is never closed cannot hide the lines that follow it', () => {
    expect(forTerminal('a\x1b]0;never closed\nnext line\x1bPq\nlast')).toBe('a\nnext line\nlast')
  })

  test('an incomplete sequence does not hide the following text', () => {
    expect(forTerminal('a\x1b[3\nb\x1b\x1b[1mc\x1b[é')).toBe('a\nbcé')
  })

  test('where the chunks are cut makes no difference', () => {
    fc.assert(
      fc.property(hostile, fc.array(fc.nat(60), { maxLength: 6 }), (text, cuts) => {
        const borders = [0, ...cuts.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length]
        const filter = terminalText()
        const pieces = borders.slice(1).map((end, at) => filter.push(text.slice(borders[at], end)))
        expect(pieces.join('')).toBe(forTerminal(text))
      }),
    )
  })

  test('removes every control character except newline and tab, and keeps other text', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const shown = forTerminal(text)
        expect(shown).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/)
        expect(forTerminal(shown)).toBe(shown)
      }),
    )
  })

  test('a table cell is one line', () => {
    expect(forTerminalLine('a \n b\tc\x1b[2J')).toBe('a b c')
  })
})
