import { type PromptText, type Slot, slotsOf } from '../request/text-slots.ts'
import { type KnownTexts, lettersIn } from './carried-data.ts'

/** Returns the texts of a request for comparisons. They are collected when they are first needed, which is rare. */
export function knownTexts(promptText: PromptText | undefined): KnownTexts {
  let slots: readonly Slot[] | undefined
  let letters: string | undefined
  const all = (): readonly Slot[] => {
    slots ??= promptText === undefined ? [] : slotsOf(promptText)
    return slots
  }
  return {
    isGiven: (url) => all().some(({ from, text }) => (from === 'system' || from === 'user') && text.includes(url)),
    contains: (url) => all().some(({ text }) => text.includes(url)),
    containsLetters(searched) {
      letters ??= all()
        .map(({ text }) => lettersIn(text))
        .join(' ')
      return letters.includes(searched)
    },
  }
}
