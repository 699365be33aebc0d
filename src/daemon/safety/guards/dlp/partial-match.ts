import type { RE2JS } from 're2js'

/** An instruction of a compiled RE2 program. */
type Instruction = { op: number; out: number; arg: number; matchRune(rune: number): boolean }
type Program = { inst: readonly Instruction[]; start: number }

/** Operations of RE2 (re2js, `Inst`). */
const [ALT, ALT_MATCH, CAPTURE, EMPTY_WIDTH, FAIL, MATCH, NOP, RUNE, RUNE1, ANY, ANY_NOT_NL] = [
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
]
/**
 * Conditions between two characters (re2js, `Utils`). Anchors need no handling, because validation rejects them in
 * customers' patterns.
 */
const [WORD_BOUNDARY, NO_WORD_BOUNDARY] = [16, 32]
const NEWLINE = 10

/** Finds matches of a pattern that are still undecided at the end of a text. */
export type PartialMatches = {
  /**
   * Returns the start of the first match, at or after `from`, that more text could complete, lengthen or change.
   * Returns `text.length` if there is no such match. `steps` is the number of steps used. Yields periodically, so that
   * other work can run.
   */
  openFrom(text: string, from: number): Generator<void, { open: number; steps: number }>
}

/** A step takes about 0.2 µs, so the generator yields several times per millisecond. */
const STEPS_PER_YIELD = 1_024

/**
 * RE2 itself reports only complete matches. This function therefore simulates all threads of a pattern on the end of a
 * text (Pike's machine). A match is decided when all of its threads have ended.
 */
export function partialMatches(regex: RE2JS): PartialMatches {
  const { inst, start } = regex.re2().prog as Program
  const isKnown = inst.every(({ op }) => op >= ALT && op <= ANY_NOT_NL)

  return {
    *openFrom(text, from) {
      if (!isKnown) return { open: from, steps: 0 }
      // Excludes the first half of a surrogate pair at the end of the text.
      const end = isHighSurrogate(text.charCodeAt(text.length - 1)) ? text.length - 1 : text.length
      const threads = new Threads(inst)
      let steps = 0
      let stepsAtTurn = STEPS_PER_YIELD
      let before = from > 0 ? text.charCodeAt(from - 1) : -1
      for (let at = from; at < end; ) {
        const rune = text.codePointAt(at) as number
        const conditions = conditionsBetween(before, rune)
        threads.enter(conditions)
        threads.add(start, at, conditions)
        steps += threads.size
        at += rune > 0xffff ? 2 : 1
        threads.step(rune)
        before = rune
        if (steps < stepsAtTurn) continue
        stepsAtTurn = steps + STEPS_PER_YIELD
        yield
      }
      // The text after the end is unknown, so every condition at the end may be true.
      const open = threads.firstOpen(WORD_BOUNDARY | NO_WORD_BOUNDARY)
      return { open: Math.min(open ?? text.length, end < text.length ? end : text.length), steps: steps + inst.length }
    },
  }
}

/** Keeps the threads in the order of their match starts. Keeps only the first thread at each instruction. */
class Threads {
  readonly #inst: readonly Instruction[]
  /** The match start of each thread, and the instruction at which the thread waits. */
  #starts: number[] = []
  #waiting: number[] = []
  /** The threads after the last step, before their conditions are checked. */
  #entering: { pc: number; start: number }[] = []
  #seen = new Set<number>()

  constructor(inst: readonly Instruction[]) {
    this.#inst = inst
  }

  get size(): number {
    return this.#seen.size
  }

  /** Follows the threads that matched the last character to their next instructions. */
  enter(conditions: number): void {
    this.#starts = []
    this.#waiting = []
    this.#seen.clear()
    for (const { pc, start } of this.#entering) this.add(pc, start, conditions)
  }

  add(from: number, start: number, conditions: number): void {
    const stack = [from]
    for (let pc = stack.pop(); pc !== undefined; pc = stack.pop()) {
      if (this.#seen.has(pc)) continue
      this.#seen.add(pc)
      const { op, out, arg } = this.#inst[pc] as Instruction
      if (op === ALT || op === ALT_MATCH) stack.push(arg, out)
      else if (op === CAPTURE || op === NOP) stack.push(out)
      else if (op === EMPTY_WIDTH) {
        if ((arg & ~conditions) === 0) stack.push(out)
      } else if (op !== FAIL && op !== MATCH) {
        this.#waiting.push(pc)
        this.#starts.push(start)
      }
    }
  }

  /** Advances all threads by this character. A thread that does not match the character ends. */
  step(rune: number): void {
    this.#entering = []
    for (const [index, pc] of this.#waiting.entries()) {
      const instruction = this.#inst[pc] as Instruction
      if (takes(instruction, rune)) {
        this.#entering.push({ pc: instruction.out, start: this.#starts[index] as number })
      }
    }
  }

  /** Returns the start of the first match that is undecided at the end of the text. */
  firstOpen(conditions: number): number | undefined {
    this.enter(conditions)
    let first = this.#starts[0]
    // The next character may decide whether a match ends here.
    for (const { pc, start } of this.#entering) {
      if ((first === undefined || start < first) && this.#waitsForCondition(pc)) first = start
    }
    return first
  }

  #waitsForCondition(from: number): boolean {
    const stack = [from]
    const seen = new Set<number>()
    for (let pc = stack.pop(); pc !== undefined; pc = stack.pop()) {
      if (seen.has(pc)) continue
      seen.add(pc)
      const { op, out, arg } = this.#inst[pc] as Instruction
      if (op === EMPTY_WIDTH) return true
      if (op === ALT || op === ALT_MATCH) stack.push(arg, out)
      else if (op === CAPTURE || op === NOP) stack.push(out)
    }
    return false
  }
}

function takes(instruction: Instruction, rune: number): boolean {
  switch (instruction.op) {
    case RUNE:
    case RUNE1:
      return instruction.matchRune(rune)
    case ANY:
      return true
    case ANY_NOT_NL:
      return rune !== NEWLINE
    default:
      return false
  }
}

const conditionsBetween = (before: number, rune: number): number =>
  isWord(before) === isWord(rune) ? NO_WORD_BOUNDARY : WORD_BOUNDARY

/** Only ASCII characters are word characters, as in RE2. */
const isWord = (rune: number): boolean =>
  (rune >= 48 && rune <= 57) || (rune >= 65 && rune <= 90) || rune === 95 || (rune >= 97 && rune <= 122)

const isHighSurrogate = (code: number): boolean => (code & 0xfc00) === 0xd800
