import { contentWords, isStopWord, wordsOf } from './words.ts'

/**
 * What to search for. `own`: what the user said last, empty when no word of it says what it is about. `inContext`: the same
 * with what it may lean on ("And on Windows?"); undefined where nothing was said before, or so much now that it needs none.
 * One of them is there whenever the user has said anything.
 */
export type Question = { own: string; inContext: string | undefined }

const QUESTION_CHARS = 2_000
const CONTEXT_CHARS = 300
/** How far back a question may lean: "And on a Mac?" on "And on Windows?" on the question that both are about. */
const CONTEXT_TURNS = 3
/** With fewer words of its own, an earlier question leans on the one before it. */
const WORDS_OF_ITS_OWN = 2
/** A word that refers back says nothing where so much else is said. */
const REFERRING_WORDS = 8

/** Words that stand for something said before. */
const REFERRING =
  /(?<![\p{L}\p{N}])(?:it|its|they|them|their|this|that|these|those|there|he|she|him|her|his|one|ones|same|former|latter|above)(?![\p{L}\p{N}])/iu
/** A question that begins so goes on with the one before. Scripts without spaces have no sign for where a word ends. */
const GOING_ON =
  /^[\s\p{P}]*(?:(?:and|or|but|also|then|so|what about|how about|und|oder|aber|et|mais|y|e|и|а)(?![\p{L}\p{N}])|和|那|では|じゃあ|そして)/iu

/**
 * What to search for. Whether a question leans on the one before cannot be told from its words in every language, so both
 * searches are made, and what they find decides (knowledge/ground.ts). Of long texts the beginning and the end. `turns`: what
 * the user has said, oldest first.
 */
export function questionOf(turns: readonly string[]): Question {
  const own = headAndTail(turns.at(-1) ?? '', QUESTION_CHARS)
  if (own.length > CONTEXT_CHARS) return { own, inContext: undefined }
  const context: string[] = []
  for (const turn of turns.slice(0, -1).reverse().slice(0, CONTEXT_TURNS)) {
    context.push(headAndTail(turn, CONTEXT_CHARS))
    if (!leansOnOthers(turn)) break
  }
  if (context.length === 0) return { own, inContext: undefined }
  // What is asked now comes twice, so that its words count more than those it leans on: Windows, and no longer Linux.
  return { own: saysNothing(own) ? '' : own, inContext: [own, ...context, own].join('\n') }
}

/** "Why?", "What is it?": searched alone, it would find whatever has these words. */
const saysNothing = (question: string): boolean => contentWords(question).every(isStopWord)

function leansOnOthers(question: string): boolean {
  if (question.length > CONTEXT_CHARS) return false
  return (
    contentWords(question).length < WORDS_OF_ITS_OWN ||
    GOING_ON.test(question) ||
    (REFERRING.test(question) && wordsOf(question).length <= REFERRING_WORDS)
  )
}

/** People ask at the beginning of a long text or at its end. */
function headAndTail(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, chars / 2)}\n${text.slice(-chars / 2)}`
}
