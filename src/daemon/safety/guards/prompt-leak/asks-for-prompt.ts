import { type PromptText, slotsOf } from '../request/text-slots.ts'
import { findPhrases } from '../shield/phrases.ts'
import { readText } from '../shield/reading.ts'

/** The number of recent user texts that are read, and how much of each. */
const TEXTS = 20
const TEXT_CHARS = 4_000
const LEAST_CONFIDENCE = 0.6

/** Returns a function that tells whether a user of this conversation asked for the system prompt. It runs only once. */
export function promptQuestion(promptText: PromptText | undefined): () => boolean {
  let answer: boolean | undefined
  return () => {
    answer ??= promptText !== undefined && userTexts(promptText).some(asksForPrompt)
    return answer
  }
}

const userTexts = (promptText: PromptText): string[] =>
  slotsOf({ ...promptText, system: '', options: undefined })
    .filter(({ from }) => from === 'user')
    .slice(-TEXTS)
    .map(({ text }) => (text.length <= TEXT_CHARS ? text : text.slice(0, TEXT_CHARS / 2) + text.slice(-TEXT_CHARS / 2)))

/** Whether a text asks for the system prompt, in any language of the shield. */
export function asksForPrompt(text: string): boolean {
  const { words } = readText(text)
  return findPhrases(words, 0, words.words.length).some(
    ({ phrase: { category, confidence } }) => category === 'prompt_leaking' && confidence >= LEAST_CONFIDENCE,
  )
}
