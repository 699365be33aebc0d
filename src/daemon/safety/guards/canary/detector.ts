// Finds canaries in every spelling that a model may use. This file is long, because one pass decodes plain text, base64
// and hex together.
import { codeUnitsOf } from '../../../platform/text/code-units.ts'
import { type Finding, remembering } from '../detection.ts'
import { codePointOf, hexValueOf, isHighSurrogate, isLowSurrogate, letterOf, letterOfSign } from '../view/characters.ts'
import type { Canary } from './marker.ts'
import { createSeeds, mayHoldSeed, type Seeds, type Sighting, Sightings, Track } from './track.ts'

/** `subject` is the id of the canary. */
export type CanaryFinding = Finding & { subject: string }

export type CanaryDetector = {
  find(text: string): CanaryFinding[]
  openFrom(text: string): number
  /** True, because open text always contains a whole word of a canary. */
  readonly holdsOnlyValues: true
}

export const CANARY = 'CANARY'

/**
 * Finds whole canaries and large parts of them, even if they are altered: written in another case, with look-alike
 * letters or backwards, or shifted in the alphabet. Spaces, punctuation or other words may interrupt them. Also decodes
 * percent-encoding, hex and base64. Satisfies the contract of `Detector` (detection.ts). A finding may lack the first
 * word of the canary, because a stream holds text back only from the second word on.
 */
export function createCanaryDetector(canaries: readonly Canary[]): CanaryDetector {
  const seeds = createSeeds(canaries)
  const read = remembering((text) => readText(text, seeds))
  return {
    find: (text) => read(text).findings,
    openFrom: (text) => read(text).openFrom,
    holdsOnlyValues: true,
  }
}

type Reading = { findings: CanaryFinding[]; openFrom: number }

function readText(text: string, seeds: Seeds): Reading {
  const units = codeUnitsOf(text)
  const { length } = text
  const sightings = new Sightings()
  const openFrom = Math.min(
    mayHoldSeed(units, length, seeds) ? readPlain(units, length, new PlainReader(seeds, sightings)) : length,
    readBase64(units, length, () => new Base64Reader(seeds, sightings)),
    readHex(units, length, () => new HexReader(seeds, sightings)),
  )
  return { findings: toFindings(sightings.all(), seeds.canaries), openFrom }
}

/** Reads the text as plain text. Returns the start of open text. */
function readPlain(units: Uint16Array, length: number, plain: PlainReader): number {
  for (let at = 0; at < length; at++) plain.read(units[at] as number, at)
  return plain.openFrom(length)
}

/**
 * Reads the text as base64. Returns the start of open text. Decodes only long runs of base64 characters; such runs are
 * rare.
 */
function readBase64(units: Uint16Array, length: number, createReader: () => Base64Reader): number {
  let reader: Base64Reader | undefined
  for (let at = nextRow(units, 0, length, IN_BASE64); at < length; at = nextRow(units, at, length, IN_BASE64)) {
    reader ??= createReader()
    do {
      reader.read(units[at] as number, at)
      at++
    } while (reader.isReading && at < length)
  }
  return reader?.openFrom(length) ?? length
}

/**
 * Reads the text as hex: digits that are adjacent or joined by the usual separators. Returns the start of open text.
 */
function readHex(units: Uint16Array, length: number, createReader: () => HexReader): number {
  let reader: HexReader | undefined
  for (let at = nextRow(units, 0, length, IN_HEX); at < length; at = nextRow(units, at, length, IN_HEX)) {
    let digits = 0
    let end = at
    for (; end < length && (kindOf(units[end] as number) & IN_HEX) !== 0; end++) {
      if ((kindOf(units[end] as number) & HEX) !== 0) digits++
    }
    if (digits >= ENCODED_CHARS) {
      reader ??= createReader()
      for (let next = at; next < Math.min(length, end + 1); next++) reader.read(units[next] as number, next)
    }
    at = end
  }
  return reader?.openFrom(length) ?? length
}

/**
 * Returns the start of the next run of at least ENCODED_CHARS characters of this kind. Returns `length` if there is no
 * such run.
 */
function nextRow(units: Uint16Array, from: number, length: number, kind: number): number {
  for (let begin = from; begin + ENCODED_CHARS <= length; ) {
    // Checks a possible run backwards from its end. In most texts, this skips most characters.
    let at = begin + ENCODED_CHARS - 1
    while (at >= begin && (kindOf(units[at] as number) & kind) !== 0) at--
    if (at < begin) return begin
    begin = at + 1
  }
  return length
}

/** Merges overlapping matches, so that a canary that several readers found is reported only once. */
function toFindings(sightings: readonly Sighting[], canaries: readonly Canary[]): CanaryFinding[] {
  const findings: CanaryFinding[] = []
  for (const { canary, start, end } of sightings.toSorted((a, b) => a.start - b.start)) {
    const last = findings.at(-1)
    if (last && start < last.end) last.end = Math.max(last.end, end)
    else findings.push({ start, end, type: CANARY, confidence: 1, subject: canaries[canary]?.id ?? '' })
  }
  return findings
}

const PERCENT = 0x25

/** Reads the text as written, and decodes percent-encoded characters (RFC 3986 §2.1). */
class PlainReader {
  readonly #track: Track
  #high = 0
  /** The number of remaining digits of the current percent-encoding. */
  #escapedLeft = 0
  #escaped = 0
  #isAfterLetter = false

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#track = new Track(seeds, sightings)
  }

  openFrom(length: number): number {
    return this.#track.openFrom(length)
  }

  read(code: number, at: number): void {
    if (this.#escapedLeft > 0) {
      const value = hexValueOf(code)
      if (value >= 0) {
        this.#escaped = this.#escaped * 16 + value
        this.#escapedLeft--
        // A percent-encoded letter counts at the last character of its encoding, so a stream may release the preceding
        // characters.
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
    const point = isLowSurrogate(code) && this.#high > 0 ? codePointOf(this.#high, code) : code
    this.#high = 0
    const letter = letterOf(point)
    // A digit counts as a letter only after a letter. Examples: "v3lm0r" is one word, and "1. first" is a number and a
    // word.
    this.#add(letter < 0 && this.#isAfterLetter ? letterOfSign(code) : letter, at)
  }

  #add(letter: number, at: number): void {
    this.#isAfterLetter = letter >= 0
    if (letter >= 0) this.#track.add(letter, at)
  }
}

/** The minimum length of an encoded run. A shorter run is read as a word. */
const ENCODED_CHARS = 16

/** Reads letters as pairs of hex digits, with the usual separators: `76 65`, `0x76,0x65`, `\x76\x65`. */
class HexReader {
  readonly #tracks: readonly [Track, Track]
  /**
   * The nibbles that are not yet decoded. Each entry contains a nibble's value, and how many nibbles separate it from
   * the last prefix.
   */
  readonly #early = new Uint16Array(ENCODED_CHARS)
  #count = 0
  #before = 0
  /** The number of nibbles since the last `x`. An `x` always starts a pair. */
  #row = 0

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#tracks = [new Track(seeds, sightings), new Track(seeds, sightings)]
  }

  /** Whether the reader is inside a run. */
  get isReading(): boolean {
    return this.#count > 0
  }

  read(code: number, at: number): void {
    const value = hexValueOf(code)
    if (value < 0) {
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

/** Builds a lookup table for ASCII characters. */
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
/** Both alphabets of base64: RFC 4648 §§4 and 5. */
const BASE64_VALUE = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = { '-': '+', _: '/' }[String.fromCharCode(code)] ?? String.fromCharCode(code)
  const value = BASE64.indexOf(character)
  return value < 0 ? NOT_BASE64 : value
})
const [IN_BASE64, HEX, IN_HEX] = [1, 2, 4]
/** The encodings in which an ASCII character can occur: base64, hex digits, or hex with separators. */
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const isBase64 = BASE64_VALUE[code] !== NOT_BASE64
  const isHex = hexValueOf(code) >= 0
  const isInHex = isHex || isIn(HEX_SEPARATORS, code) || isIn(HEX_PREFIXES, code)
  return (isBase64 ? IN_BASE64 : 0) | (isHex ? HEX : 0) | (isInHex ? IN_HEX : 0)
})
const kindOf = (code: number): number => (code < 128 ? (KINDS[code] as number) : 0)
const PHASES = [0, 1, 2, 3] as const

/** Reads base64 across line breaks. The base64 may begin anywhere in a run. */
class Base64Reader {
  readonly #tracks: readonly Track[]
  readonly #early = new Uint8Array(ENCODED_CHARS)
  #count = 0
  #before = 0

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#tracks = PHASES.map(() => new Track(seeds, sightings))
  }

  /** Whether the reader is inside a run. */
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

  /**
   * In three of the four alignments, two consecutive characters contain a byte. Decodes this byte in all three
   * alignments, because it is unknown where a group starts.
   */
  #decode(value: number, index: number, at: number): void {
    const bits = (this.#before << 6) | value
    this.#before = value
    if (index === 0) return
    for (const phase of PHASES) {
      const place = (index - phase) & 3
      if (place === 0) continue
      const byte = (bits >> (6 - 2 * place)) & 0xff
      // A byte of 0x80 or above belongs to a multi-byte character, or the bytes are not text.
      const letter = byte < 0x80 ? letterOf(byte) : -1
      if (letter >= 0) (this.#tracks[phase] as Track).add(letter, at)
    }
  }
}
