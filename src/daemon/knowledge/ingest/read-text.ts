// Clients send the files of a conversation again in every turn, so their texts are kept for a while.
import { subtle } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Extractor } from './extract/pool.ts'

/** Maximum length of all kept texts together, in characters. */
const KEPT_CHARS = 16_777_216
const KEPT_MS = 600_000

/** Reads the text of a file that is not part of a knowledge base. See `Extractor.text`. */
export type ReadText = Extractor['text']

/** Returns a reader of texts that remembers the texts it has read. Files that could not be read are read again. */
export function createTextReader(read: ReadText): ReadText {
  const texts = new LRUCache<string, string>({
    maxSize: KEPT_CHARS,
    sizeCalculation: (text) => Math.max(1, text.length),
    ttl: KEPT_MS,
  })
  return async (file, by, limit) => {
    // The hash of a large file takes tens of milliseconds, so it is computed on another thread.
    const hash = Buffer.from(await subtle.digest('SHA-256', file.content as Uint8Array<ArrayBuffer>))
    const key = `${hash.toString('base64')} ${file.type} ${file.name} ${limit}`
    const known = texts.get(key)
    if (known !== undefined) return known
    const text = await read(file, by, limit)
    if (text !== undefined) texts.set(key, text)
    return text
  }
}
