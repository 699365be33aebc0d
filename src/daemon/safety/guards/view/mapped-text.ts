/** A range of a text in UTF-16 code units. `end` is exclusive. */
export type Range = { start: number; end: number }

/**
 * A change of a text: `text` replaces a range. If the text was decoded, `starts` and `ends` map each code unit of `text`
 * to the range that encodes it. Without them, each code unit of `text` maps to the whole range. `isDecoded`: the range
 * spells other characters than `text`, so that a mask cannot keep its shape.
 */
export type Patch = Range & { text: string; starts?: readonly number[]; ends?: readonly number[]; isDecoded?: true }

/**
 * A text that was derived from another text by patches. Each of its positions maps back to the other text, so that a
 * value found here can be replaced there.
 */
export class MappedText {
  readonly text: string
  readonly #source: MappedText | undefined
  /** The patches, and for each of them the offset in `text` where its replacement starts. */
  readonly #patches: readonly Patch[]
  readonly #at: readonly number[]

  /** @param patches ordered and disjoint @param source the mapping of `original`, if it is itself derived */
  constructor(original: string, patches: readonly Patch[], source?: MappedText) {
    const at: number[] = []
    let text = ''
    let from = 0
    for (const patch of patches) {
      text += original.slice(from, patch.start)
      at.push(text.length)
      text += patch.text
      from = patch.end
    }
    this.text = text + original.slice(from)
    this.#patches = patches
    this.#at = at
    this.#source = source
  }

  /** Returns the range of the original text that contains everything which a range of this text stands for. */
  toOriginal(start: number, end: number): Range {
    const range = { start: this.#startOf(start), end: end > start ? this.#endOf(end - 1) : this.#startOf(start) }
    return this.#source ? this.#source.toOriginal(range.start, Math.max(range.start, range.end)) : range
  }

  /** Whether a range of this text differs from the text that it stands for. A patch next to the range counts too. */
  isChanged(start: number, end: number): boolean {
    return this.#has(start, end, () => true)
  }

  /** Whether a range of this text was decoded, wholly or in part. */
  isDecoded(start: number, end: number): boolean {
    return this.#has(start, end, ({ isDecoded }) => isDecoded === true)
  }

  #has(start: number, end: number, counts: (patch: Patch) => boolean): boolean {
    for (let at = this.#patchAt(start - 1); at < this.#patches.length; at++) {
      const patch = this.#patches[at]
      const from = this.#at[at] ?? 0
      if (from > end) break
      if (patch && from + patch.text.length >= start && counts(patch)) return true
    }
    if (!this.#source) return false
    return this.#source.#has(this.#startOf(start), this.#endOf(Math.max(start, end - 1)), counts)
  }

  /** Returns the first offset of this text that stands for `offset` or for a later offset of the original text. */
  fromOriginal(offset: number): number {
    const own = this.#source ? this.#source.fromOriginal(offset) : offset
    let shift = 0
    for (const [index, patch] of this.#patches.entries()) {
      if (patch.end > own) return patch.start < own ? (this.#at[index] ?? 0) : own + shift
      shift = (this.#at[index] ?? 0) + patch.text.length - patch.end
    }
    return own + shift
  }

  #startOf(offset: number): number {
    const index = this.#patchAt(offset)
    const patch = this.#patches[index]
    if (!patch) return offset
    const from = this.#at[index] ?? 0
    if (offset < from) return offset
    const inside = offset - from
    if (inside < patch.text.length) return patch.starts?.[inside] ?? patch.start
    return patch.end + inside - patch.text.length
  }

  #endOf(offset: number): number {
    const index = this.#patchAt(offset)
    const patch = this.#patches[index]
    if (!patch) return offset + 1
    const from = this.#at[index] ?? 0
    if (offset < from) return offset + 1
    const inside = offset - from
    if (inside < patch.text.length) return patch.ends?.[inside] ?? patch.end
    return patch.end + inside - patch.text.length + 1
  }

  /** Returns the index of the last patch that starts at or before the offset. Returns 0 if there is none. */
  #patchAt(offset: number): number {
    let low = 0
    let high = this.#at.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#at[middle] ?? 0) <= offset) low = middle + 1
      else high = middle
    }
    return Math.max(0, low - 1)
  }
}
