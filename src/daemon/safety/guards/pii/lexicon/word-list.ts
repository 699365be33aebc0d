import { brotliDecompressSync } from 'node:zlib'
import { LISTS } from './lists.ts'
import { NATIONALITIES } from './name-words.ts'

/** The kinds of a listed word, as bits. */
export const GIVEN_NAME = 1
export const SURNAME = 2
/** A country, a state or a continent. */
export const REGION = 4
export const CITY = 8
/** An English word, or the name of a program or a company. */
export const EVERYDAY = 16
export const STREET_SUFFIX = 32
export const NATIONALITY = 64
/** A Chinese, Japanese or Korean surname. */
export const EASTERN_SURNAME = 128

let table: ReturnType<typeof unpacked> | undefined

/** Returns the kinds of a word or phrase in lower case. The first call unpacks the lists, which takes 60 ms. */
export function kindsOf(word: string): number {
  table ??= unpacked()
  return table(word)
}

export function isRegion(phrase: string): boolean {
  return (kindsOf(phrase) & REGION) !== 0
}

export function isPlace(phrase: string): boolean {
  return (kindsOf(phrase) & (REGION | CITY)) !== 0
}

/** Whether the word is a name of a person and not also an everyday word. */
export function isOnlyName(word: string): boolean {
  const kinds = kindsOf(word)
  return (kinds & (GIVEN_NAME | SURNAME)) !== 0 && (kinds & EVERYDAY) === 0
}

/**
 * Stores a hash of 32 bits per word instead of the word, because 150,000 strings would take ten megabytes. One in 30,000
 * unlisted words has the hash of a listed word.
 */
function unpacked(): (word: string) => number {
  const lists: [number, Iterable<string>][] = [
    [GIVEN_NAME, linesOf(LISTS.given)],
    [SURNAME, linesOf(LISTS.surnames)],
    [REGION, linesOf(LISTS.regions)],
    [CITY, linesOf(LISTS.cities)],
    [EVERYDAY, linesOf(LISTS.words)],
    [STREET_SUFFIX, linesOf(LISTS.streets)],
    [NATIONALITY, NATIONALITIES],
    [EASTERN_SURNAME, linesOf(LISTS.eastern)],
  ]
  const slots = new Uint32Array(SLOTS)
  const kinds = new Uint8Array(SLOTS)
  const slotOf = (hash: number) => {
    let slot = hash & (SLOTS - 1)
    while (slots[slot] !== 0 && slots[slot] !== hash) slot = (slot + 1) & (SLOTS - 1)
    return slot
  }
  for (const [kind, words] of lists) {
    for (const word of words) {
      const hash = hashOf(word)
      const slot = slotOf(hash)
      slots[slot] = hash
      kinds[slot]! |= kind
    }
  }
  return (word) => kinds[slotOf(hashOf(word))]!
}

/** More than the number of listed words. A power of two. */
const SLOTS = 2 ** 18

function linesOf(packed: string): string[] {
  return brotliDecompressSync(Buffer.from(packed, 'base64')).toString().split('\n')
}

/** FNV-1a with a final mix. Returns a positive number: 0 marks an empty slot. */
function hashOf(word: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < word.length; index++) hash = Math.imul(hash ^ word.charCodeAt(index), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return (hash ^ (hash >>> 13)) >>> 0 || 1
}
