import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  binaryPatches,
  decimalPatches,
  entityPatches,
  escapePatches,
  hexPatches,
  percentPatches,
  reversedPatch,
} from '../../../../../src/daemon/safety/guards/view/encodings.ts'
import { MappedText, type Patch } from '../../../../../src/daemon/safety/guards/view/mapped-text.ts'
import { lookAlikePatches, plainPatches } from '../../../../../src/daemon/safety/guards/view/plain-text.ts'

const READERS: Record<string, (text: string) => Patch[]> = {
  characters: plainPatches,
  'look-alikes': lookAlikePatches,
  percent: percentPatches,
  entities: entityPatches,
  escapes: escapePatches,
  hex: hexPatches,
  binary: binaryPatches,
  decimal: decimalPatches,
}

const bytesAs = (text: string, one: (byte: number) => string) => Array.from(Buffer.from(text), one).join('')
const written = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ maxLength: 12, unit: 'grapheme' }),
  fc.string({ minLength: 9, maxLength: 20 }).map((text) => bytesAs(text, (byte) => `%${byte.toString(16)}`)),
  fc.string({ minLength: 9, maxLength: 20 }).map((text) => bytesAs(text, (byte) => `&#${byte};`)),
  fc.string({ minLength: 9, maxLength: 20 }).map((text) => Buffer.from(text).toString('hex')),
  fc.string({ minLength: 9, maxLength: 20 }).map((text) => bytesAs(text, (byte) => `${byte} `)),
  fc.constantFrom('раypаl', '４１１１', '🅰🇧', 'a\u200bb', '1\u0301', 'Ⅷ', '\u00a0', '—'),
)
const texts = fc.array(written, { maxLength: 6 }).map((parts) => parts.join(' '))

test.each(Object.entries(READERS))('%s: positions map back in order and in range', (_, patchesOf) => {
  fc.assert(
    fc.property(texts, (text) => {
      const patches = patchesOf(text)
      let last = 0
      for (const { start, end } of patches) {
        expect(start).toBeGreaterThanOrEqual(last)
        expect(end).toBeGreaterThanOrEqual(start)
        last = end
      }
      expect(last).toBeLessThanOrEqual(text.length)
      expectInOrder(new MappedText(text, patches), text)
    }),
  )
})

test('a chain of two views maps back in order, and unchanged text maps to itself', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const first = new MappedText(text, plainPatches(text))
      const second = new MappedText(first.text, percentPatches(first.text), first)
      expectInOrder(second, text)
      for (let at = 0; at < second.text.length; at++) {
        const range = second.toOriginal(at, at + 1)
        if (!second.isChanged(at, at + 1)) expect(text.slice(range.start, range.end)).toBe(second.text[at])
      }
    }),
  )
})

test('a reversed range maps each character to its own place', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 20 }), (text) => {
      const view = new MappedText(`a ${text} b`, [reversedPatch(`a ${text} b`, 2, 2 + text.length)])
      for (let at = 0; at < view.text.length; at++) {
        const { start, end } = view.toOriginal(at, at + 1)
        expect(`a ${text} b`.slice(start, end)).toContain(view.text[at])
      }
    }),
  )
})

/** Each position maps to a range at or after that of the position before it. */
function expectInOrder(view: MappedText, original: string): void {
  let last = 0
  for (let at = 0; at < view.text.length; at++) {
    const { start, end } = view.toOriginal(at, at + 1)
    expect(start).toBeGreaterThanOrEqual(last)
    expect(end).toBeGreaterThanOrEqual(start)
    expect(end).toBeLessThanOrEqual(original.length)
    last = start
  }
  expect(view.toOriginal(0, view.text.length).end).toBeLessThanOrEqual(original.length)
}
