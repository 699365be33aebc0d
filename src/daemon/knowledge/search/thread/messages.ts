import type { PublishedSegment } from '../../indexes/segment.ts'
import type { Ranked } from '../rank.ts'

/** A search for the thread. `published` and `deleted`: see StoredIndex. */
export type RankTask = {
  query: string
  limit: number
  published: readonly PublishedSegment[]
  deleted: string
}

/**
 * What the thread needs from the store. `segments`: two byte arrays per segment, its passages and their lengths.
 * `pages`: one byte array per page. `passages`: a text for `decodeMatches`.
 */
export type Read =
  | { part: 'segments'; keys: readonly string[] }
  | { part: 'pages'; keys: readonly string[] }
  | { part: 'passages'; keys: readonly number[] }

/** Several byte arrays in one. `lengths` contains the length of each. */
export type Packed = { lengths: readonly number[]; bytes: Uint8Array }

/** A message to the thread. `id` is the id of the search. The thread drops a cancelled search. */
export type ToThread =
  | ({ kind: 'rank'; id: number } & RankTask)
  | { kind: 'answer'; id: number; answer: Packed | string }
  | { kind: 'cancel'; id: number }

/** A message from the thread. The last message of a search is `ranked` or `failed`. */
export type FromThread =
  | ({ kind: 'read'; id: number } & Read)
  | { kind: 'ranked'; id: number; ranked: readonly Ranked[] }
  | { kind: 'failed'; id: number; error: unknown }

/** Copies byte arrays into one array with its own memory, which can be transferred to a thread. */
export function pack(parts: readonly Uint8Array[]): { lengths: number[]; bytes: Uint8Array<ArrayBuffer> } {
  const lengths = parts.map(({ length }) => length)
  const bytes = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return { lengths, bytes }
}

/** Copies each part, so that a cached part does not keep the memory of the others. */
export function unpack({ lengths, bytes }: Packed): Uint8Array[] {
  let at = 0
  return lengths.map((length) => {
    at += length
    return bytes.slice(at - length, at)
  })
}
