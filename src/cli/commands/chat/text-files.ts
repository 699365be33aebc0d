import { readText } from '../../input/text-input.ts'

/** `@FILE` stands for what is in it. */
export const readSystem = async (text: string): Promise<string> =>
  text.startsWith('@') ? readText(text.slice(1)) : text
