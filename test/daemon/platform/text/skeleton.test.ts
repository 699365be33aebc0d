import { expect, test } from 'vitest'
import { lookAlikeIn, skeletonOf } from '../../../../src/daemon/platform/text/skeleton.ts'

test.each([
  ['a letter of Cyrillic', 'аdmin', 'admin', 'а'],
  ['a letter of Greek that is drawn like l', 'paypaΙ', 'paypal', 'Ι'],
  ['the palochka', 'paypaӀ', 'paypal', 'Ӏ'],
  ['a Cyrillic І for the digit 1', 'Team І', 'Team 1', 'І'],
  ['a Cyrillic І for a bar', 'a І b', 'a | b', 'І'],
  ['a Greek O for the digit 0', 'team-1Ο', 'team-10', 'Ο'],
  ['a digit of another script', 'Team ٣', 'Team 3', '٣'],
  ['a zero of another script for the letter o', 'r०ot', 'root', '०'],
  ['a Cyrillic letter with a composed accent', 'm\u04d3x', 'm\u00e4x', 'а'],
  ['a Cyrillic letter with a combining accent', 'caf\u0435\u0301', 'caf\u00e9', '\u0435'],
  ['a Greek letter with an accent', '\u03ac', '\u00e1', 'α'],
  ['a dot on a dotted letter', 'admi\u0307n', 'admin', '\u0307'],
  ['a dot on a dotted letter of Cyrillic', 'adm\u0456\u0307n', 'admin', '\u0307'],
  ['a dot on j', 'j\u0307ohn', 'john', '\u0307'],
])('%s is found', (_, name, other, letter) => {
  expect(skeletonOf(name)).toBe(skeletonOf(other))
  expect(lookAlikeIn(name, other)?.letter).toBe(letter)
  expect(lookAlikeIn(other, name)).toBeDefined()
})

test.each([
  ['Team l', 'Team 1'],
  ['Team I', 'Team l'],
  ['O-Ring', '0-ring'],
  ['mail', 'mall'],
  ['Казак', 'Қазақ'],
  ['Łódź', 'Lodz'],
  ['café', 'cafe'],
  ['İstanbul', 'Istanbul'],
  ['modern', 'modem'],
  ['Straße', 'Strasse'],
  ['日本', '日木'],
  ['Ёлка', 'Елка'],
])('%s and %s are different names', (name, other) => {
  expect([lookAlikeIn(name, other), lookAlikeIn(other, name)]).toEqual([undefined, undefined])
})

test('a skeleton is the same for both forms of composition, and for each case', () => {
  for (const name of ['Café', 'Мäx', 'ǅ', 'ＦＵＬＬ', 'Ά'])
    expect(skeletonOf(name.normalize('NFD'))).toBe(skeletonOf(name.normalize('NFC')))
  expect(skeletonOf('ADMIN')).toBe(skeletonOf('admin'))
})
