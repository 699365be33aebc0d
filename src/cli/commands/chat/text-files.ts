import { readFile } from 'node:fs/promises'
import { unreadable } from '../../errors.ts'
import { toUtf8 } from './stdin.ts'

/** `@FILE` stands for what is in it. */
export const readSystem = async (text: string): Promise<string> =>
  text.startsWith('@') ? readText(text.slice(1)) : text

/** A text file; throws a usage error for one that cannot be read or is no UTF-8. */
export async function readText(path: string): Promise<string> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  return toUtf8(bytes, path)
}
