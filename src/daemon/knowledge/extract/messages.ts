import type { Passage } from '../chunking.ts'

/** A document on its way to a worker: where it is, or what it holds. */
export type FileToRead = { name: string; type: string; content: string | Uint8Array }

/** What a worker answers: any number of passages, then how it ended. */
export type WorkerMessage =
  | { kind: 'passages'; passages: Passage[] }
  | { kind: 'done'; title: string }
  /** `message` is for the one who sent the file, `cause` for the log. */
  | { kind: 'unreadable'; message: string; cause: string | undefined }
