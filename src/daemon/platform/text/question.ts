import { contentWords, isStopWord, wordsOf } from './words.ts'

/**
 * The search texts. `own`: the user's last message, empty when it has no content word. `inContext`: the same with the
 * previous messages that it may refer to ("And on Windows?"); undefined without previous messages, or when the last one
 * is long enough. At least one is set if the user has written anything.
 */
export type Question = { own: string; inContext: string | undefined }

const QUESTION_CHARS = 2_000
const CONTEXT_CHARS = 300
/**
 * How many messages back a question may refer: "And on a Mac?" to "And on Windows?" to the question that both are
 * about.
 */
const CONTEXT_TURNS = 3
/** With fewer content words, an earlier question refers to the one before it. */
const WORDS_OF_ITS_OWN = 2
/** With this many content words, a referring word is ignored. */
const REFERRING_WORDS = 8

/** Words that refer to previous text. */
const REFERRING =
  /(?<![\p{L}\p{N}])(?:it|its|they|them|their|this|that|these|those|there|he|she|him|her|his|one|ones|same|former|latter|above)(?![\p{L}\p{N}])/iu
/**
 * A question with such a beginning continues the previous one. Scripts without spaces do not mark where a word ends.
 */
const GOING_ON =
  /^[\s\p{P}]*(?:(?:and|or|but|also|then|so|what about|how about|und|oder|aber|et|mais|y|e|и|а)(?![\p{L}\p{N}])|和|那|では|じゃあ|そして)/iu

/**
 * The search texts for the user's last message. Its words do not show in every language whether it refers to earlier
 * ones, so both searches run, and their results decide (knowledge/ground.ts). Long texts are cut to their beginning and
 * end. `turns`: the user's messages, oldest first.
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
  // The current question appears twice, so that its words outweigh the context: Windows, and no longer Linux.
  return { own: hasOnlyStopWords(own) ? '' : own, inContext: [own, ...context, own].join('\n') }
}

/** "Why?", "What is it?": searched alone, it would match any text with these words. */
const hasOnlyStopWords = (question: string): boolean => contentWords(question).every(isStopWord)

function leansOnOthers(question: string): boolean {
  if (question.length > CONTEXT_CHARS) return false
  return (
    contentWords(question).length < WORDS_OF_ITS_OWN ||
    GOING_ON.test(question) ||
    (REFERRING.test(question) && wordsOf(question).length <= REFERRING_WORDS)
  )
}

/** In a long text, the question is usually at the beginning or at the end. */
function headAndTail(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, chars / 2)}\n${text.slice(-chars / 2)}`
}
