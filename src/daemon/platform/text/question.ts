import { contentWords, isStopWord, wordsOf } from './words.ts'

/**
 * The search texts. `own`: the user's last message; empty if it has no content word. `inContext`: the last message with
 * the previous messages that it may refer to ("And on Windows?"). `inContext` is undefined if there are no previous
 * messages or the last message is long. At least one text is set if the user has written anything.
 */
export type Question = { own: string; inContext: string | undefined }

const QUESTION_CHARS = 2_000
const CONTEXT_CHARS = 300
/**
 * The number of previous messages that a question may refer to. Example: in "How do I install it on Linux?", "And on
 * Windows?", "And on a Mac?", the third question refers to the first.
 */
const CONTEXT_TURNS = 3
/** A previous question with fewer content words than this number refers to the question before it. */
const WORDS_OF_ITS_OWN = 2
/** Referring words are ignored in questions with at least this number of content words. */
const REFERRING_WORDS = 8

/** Words that may refer to an earlier message. */
const REFERRING =
  /(?<![\p{L}\p{N}])(?:it|its|they|them|their|this|that|these|those|there|he|she|him|her|his|one|ones|same|former|latter|above)(?![\p{L}\p{N}])/iu
/**
 * A question that begins with one of these words continues the previous question. The end of a word is not checked in
 * scripts without spaces.
 */
const GOING_ON =
  /^[\s\p{P}]*(?:(?:and|or|but|also|then|so|what about|how about|und|oder|aber|et|mais|y|e|и|а)(?![\p{L}\p{N}])|和|那|では|じゃあ|そして)/iu

/**
 * Returns the search texts for the user's last message. Both searches run, and their results decide
 * (knowledge/search/ground.ts). In some languages, the words do not show whether a message refers to earlier messages.
 * Long texts are shortened to their beginning and end. `turns` contains the user's messages, oldest first.
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
  // The current question occurs twice, so that its words outweigh the context: after "And on Windows?", Windows
  // outweighs Linux.
  return { own: hasOnlyStopWords(own) ? '' : own, inContext: [own, ...context, own].join('\n') }
}

/**
 * Returns true for questions such as "Why?" or "What is it?". By themselves, they would match any text that contains
 * these words.
 */
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
