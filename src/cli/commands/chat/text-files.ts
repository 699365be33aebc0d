import { readText } from '../../input/text-input.ts'

/** Returns the system prompt: the text itself, or the content of `@FILE`. */
export const readSystem = async (text: string): Promise<string> =>
  text.startsWith('@') ? readText(text.slice(1)) : text
