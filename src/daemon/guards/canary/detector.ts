import { codeUnitsOf } from '../../text/code-units.ts'
import { type Finding, remembering } from '../detection.ts'
import { letterOf, letterOfSign } from './letters.ts'
import type { Canary } from './marker.ts'
import { createSeeds, type Seeds, type Sighting, Sightings, Track } from './track.ts'

/** `subject` is the id of the canary. */
export type CanaryFinding = Finding & { subject: string }

export type CanaryDetector = {
  find(text: string): CanaryFinding[]
  openFrom(text: string): number
}

export const CANARY = 'CANARY'

/**
 * Finds these canaries, or a good part of one, in whatever way a model may write them: in other case, spaced, punctuated,
 * with look-alike letters, backwards, shifted in the alphabet, with other words between, percent-encoded, as hex or base64.
 * Keeps the law of detectors (detection.ts). Of what is found the first word may be missing, for until then it could be
 * anything and is not held back.
 */
export function createCanaryDetector(canaries: readonly Canary[]): CanaryDetector {
  const seeds = createSeeds(canaries)
  const read = remembering((text) => readText(text, seeds))
  return {
    find: (text) => read(text).findings,
    openFrom: (text) => read(text).openFrom,
  }
}

type Reading = { findings: CanaryFinding[]; openFrom: number }

function readText(text: string, seeds: Seeds): Reading {
  const sightings = new Sightings()
  const plain = new PlainReader(seeds, sightings)
  const units = codeUnitsOf(text)
  const { length } = text
  plain.read(units, length)
  const encoded = new EncodedReader(seeds, sightings)
  encoded.read(units, length)
  const openFrom = Math.min(plain.openFrom(length), encoded.openFrom(length))
  return { findings: toFindings(sightings.all(), seeds.canaries), openFrom }
}

/** What is no word but may be an encoding is rare: only such stretches are read by whoever decodes them. */
class EncodedReader {
  readonly #base64: Base64Reader
  readonly #hex: HexReader

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#base64 = new Base64Reader(seeds, sightings)
    this.#hex = new HexReader(seeds, sightings)
  }

  read(units: Uint16Array, length: number): void {
    /** Characters of base64 in a row, and digits of hex with nothing but what may stand between them. */
    let base64Row = 0
    let hexRow = 0
    let isEncoded = false
    for (let at = 0; at < length; at++) {
      const code = units[at] as number
      const kind = code < 128 ? (KINDS[code] as number) : 0
      // Reckoned and not asked, for what comes next in a text is anybody's guess.
      base64Row = (base64Row + 1) & -(kind & 1)
      hexRow = (hexRow + ((kind >> HEX_BIT) & 1)) & -((kind >> IN_HEX_BIT) & 1)
      if (isEncoded || base64Row === ENCODED_CHARS || hexRow === ENCODED_CHARS) {
        isEncoded = this.#decode(units, at, base64Row === ENCODED_CHARS, hexRow === ENCODED_CHARS)
      }
    }
  }

  openFrom(length: number): number {
    return Math.min(this.#base64.openFrom(length), this.#hex.openFrom(length))
  }

  /** Reads on where something encoded goes on, or begins. @returns whether there is more of it to come */
  #decode(units: Uint16Array, at: number, beginsBase64: boolean, beginsHex: boolean): boolean {
    const base64 = this.#base64
    const hex = this.#hex
    if (base64.isReading) base64.read(units[at] as number, at)
    else if (beginsBase64) {
      for (let next = at + 1 - ENCODED_CHARS; next <= at; next++) base64.read(units[next] as number, next)
    }
    if (hex.isReading) hex.read(units[at] as number, at)
    else if (beginsHex) for (let next = hexFrom(units, at); next <= at; next++) hex.read(units[next] as number, next)
    return base64.isReading || hex.isReading
  }
}

/** Where the first of the digits stands of which the last is at `at`, with nothing but what may stand between them. */
function hexFrom(units: Uint16Array, at: number): number {
  let from = at
  for (let next = at; next >= 0; next--) {
    const code = units[next] as number
    const kind = code < 128 ? (KINDS[code] as number) : 0
    if (((kind >> IN_HEX_BIT) & 1) === 0) break
    if (((kind >> HEX_BIT) & 1) === 1) from = next
  }
  return from
}

/** One reading may see the same canary as another; each is told once. */
function toFindings(sightings: readonly Sighting[], canaries: readonly Canary[]): CanaryFinding[] {
  const findings: CanaryFinding[] = []
  for (const { canary, start, end } of sightings.toSorted((a, b) => a.start - b.start)) {
    const last = findings.at(-1)
    if (last && start < last.end) last.end = Math.max(last.end, end)
    else findings.push({ start, end, type: CANARY, confidence: 1, subject: canaries[canary]?.id ?? '' })
  }
  return findings
}

const isHighSurrogate = (code: number): boolean => (code & 0xfc00) === 0xd800
const isLowSurrogate = (code: number): boolean => (code & 0xfc00) === 0xdc00

const PERCENT = 0x25
const NOT_HEX = 255
/** By character code, for ASCII. */
const HEX_VALUE = Uint8Array.from({ length: 128 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16)
  return Number.isNaN(value) ? NOT_HEX : value
})
const hexValue = (code: number): number => (code < 128 ? (HEX_VALUE[code] as number) : NOT_HEX)

/** The text as it stands; single characters may be percent-encoded (RFC 3986 §2.1). */
class PlainReader {
  readonly #track: Track
  #high = 0
  /** Digits of a percent-encoding that are still to come. */
  #escapedLeft = 0
  #escaped = 0
  #isAfterLetter = false

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#track = new Track(seeds, sightings)
  }

  read(units: Uint16Array, length: number): void {
    for (let at = 0; at < length; at++) {
      const letters = this.#escapedLeft > 0 ? at : this.#track.addLetters(units, at, length)
      if (letters > at) {
        this.#high = 0
        this.#isAfterLetter = true
        at = letters
        if (at === length) return
      }
      this.#readOther(units[at] as number, at)
    }
  }

  openFrom(length: number): number {
    return this.#track.openFrom(length)
  }

  #readOther(code: number, at: number): void {
    if (this.#escapedLeft > 0) {
      const value = hexValue(code)
      if (value !== NOT_HEX) {
        this.#escaped = this.#escaped * 16 + value
        this.#escapedLeft--
        // Where it ends is where it stands: until then nothing of it is held back.
        if (this.#escapedLeft === 0) this.#add(letterOf(this.#escaped & 0x7f), at)
        return
      }
      this.#escapedLeft = 0
    }
    if (code === PERCENT) {
      this.#escapedLeft = 2
      this.#escaped = 0
      return
    }
    if (isHighSurrogate(code)) {
      this.#high = code
      return
    }
    const point =
      isLowSurrogate(code) && this.#high > 0 ? (this.#high - 0xd800) * 0x400 + code - 0xdc00 + 0x10000 : code
    this.#high = 0
    const letter = letterOf(point)
    // "1. first" is a number and a word, "v3lm0r" is one word.
    this.#add(letter < 0 && this.#isAfterLetter ? letterOfSign(code) : letter, at)
  }

  #add(letter: number, at: number): void {
    this.#isAfterLetter = letter >= 0
    if (letter >= 0) this.#track.add(letter, at)
  }
}

/** Below so many characters something is taken for a word, not for an encoding. */
const ENCODED_CHARS = 16

/** Letters as pairs of hex digits, with what people and programs put between them: `76 65`, `0x76,0x65`, `\x76\x65`. */
class HexReader {
  readonly #tracks: readonly [Track, Track]
  /** Of the nibbles before those that are decoded: the value and how many there are since the last prefix. */
  readonly #early = new Uint16Array(ENCODED_CHARS)
  #count = 0
  #before = 0
  /** Nibbles since the last `x`, after which a pair begins. */
  #row = 0

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#tracks = [new Track(seeds, sightings), new Track(seeds, sightings)]
  }

  /** Has begun, and not come to its end. */
  get isReading(): boolean {
    return this.#count > 0
  }

  read(code: number, at: number): void {
    const value = hexValue(code)
    if (value === NOT_HEX) {
      this.#readOther(code)
      return
    }
    this.#count++
    if (this.#count < ENCODED_CHARS) {
      this.#early[this.#count - 1] = (this.#row << 4) | value
      this.#row++
      return
    }
    if (this.#count === ENCODED_CHARS) {
      for (const early of this.#early.subarray(0, ENCODED_CHARS - 1)) this.#decode(early & 0xf, early >> 4, at)
    }
    this.#decode(value, this.#row, at)
    this.#row++
  }

  openFrom(length: number): number {
    return this.#count < ENCODED_CHARS ? length : Math.min(...this.#tracks.map((track) => track.openFrom(length)))
  }

  #readOther(code: number): void {
    if (this.#count === 0) return
    if (isIn(HEX_PREFIXES, code)) this.#row = 0
    else if (!isIn(HEX_SEPARATORS, code)) {
      this.#count = 0
      this.#row = 0
      for (const track of this.#tracks) track.cut()
    }
  }

  #decode(value: number, row: number, at: number): void {
    if (row > 0) {
      const letter = letterOf(((this.#before << 4) | value) & 0x7f)
      if (letter >= 0) (this.#tracks[row & 1] as Track).add(letter, at)
    }
    this.#before = value
  }
}

/** By character code, for ASCII. */
const charactersOf = (characters: string): Uint8Array => {
  const set = new Uint8Array(128)
  for (const character of characters) set[character.charCodeAt(0)] = 1
  return set
}
const isIn = (set: Uint8Array, code: number): boolean => code < 128 && set[code] === 1

const HEX_SEPARATORS = charactersOf(' \t\r\n,;:-_%\\&#"\'')
const HEX_PREFIXES = charactersOf('xXuU')
const LINE_ENDS = charactersOf('\r\n')

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const NOT_BASE64 = 255
/** RFC 4648 §§4 and 5: both alphabets. */
const BASE64_VALUE = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = { '-': '+', _: '/' }[String.fromCharCode(code)] ?? String.fromCharCode(code)
  const value = BASE64.indexOf(character)
  return value < 0 ? NOT_BASE64 : value
})
const IN_BASE64 = 1
const HEX_BIT = 1
const IN_HEX_BIT = 2
/** What a character may be part of, by its code, for ASCII: base64, a digit of hex, hex with what may stand between. */
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const isBase64 = BASE64_VALUE[code] !== NOT_BASE64
  const isHex = HEX_VALUE[code] !== NOT_HEX
  const isInHex = isHex || isIn(HEX_SEPARATORS, code) || isIn(HEX_PREFIXES, code)
  return (isBase64 ? IN_BASE64 : 0) | (isHex ? 1 << HEX_BIT : 0) | (isInHex ? 1 << IN_HEX_BIT : 0)
})
const PHASES = [0, 1, 2, 3] as const

/** base64, whatever stands before it in the same run, also in lines. */
class Base64Reader {
  readonly #tracks: readonly Track[]
  readonly #early = new Uint8Array(ENCODED_CHARS)
  #count = 0
  #before = 0

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#tracks = PHASES.map(() => new Track(seeds, sightings))
  }

  /** Has begun, and not come to its end. */
  get isReading(): boolean {
    return this.#count > 0
  }

  read(code: number, at: number): void {
    const value = code < 128 ? (BASE64_VALUE[code] as number) : NOT_BASE64
    if (value === NOT_BASE64) {
      if (!(this.#count >= ENCODED_CHARS && isIn(LINE_ENDS, code))) this.#end()
      return
    }
    this.#count++
    if (this.#count < ENCODED_CHARS) {
      this.#early[this.#count - 1] = value
      return
    }
    if (this.#count === ENCODED_CHARS) {
      for (let early = 0; early < ENCODED_CHARS - 1; early++) this.#decode(this.#early[early] as number, early, at)
    }
    this.#decode(value, this.#count - 1, at)
  }

  openFrom(length: number): number {
    return this.#count < ENCODED_CHARS ? length : Math.min(...this.#tracks.map((track) => track.openFrom(length)))
  }

  #end(): void {
    if (this.#count >= ENCODED_CHARS) for (const track of this.#tracks) track.cut()
    this.#count = 0
  }

  /** Two characters in a row hold a whole byte in three of four places, and where a group begins is not known. */
  #decode(value: number, index: number, at: number): void {
    const bits = (this.#before << 6) | value
    this.#before = value
    if (index === 0) return
    for (const phase of PHASES) {
      const place = (index - phase) & 3
      if (place === 0) continue
      const byte = (bits >> (6 - 2 * place)) & 0xff
      // Other bytes are parts of characters, or of something that is no text.
      const letter = byte < 0x80 ? letterOf(byte) : -1
      if (letter >= 0) (this.#tracks[phase] as Track).add(letter, at)
    }
  }
}
