import type { GuardHit } from '../../../safety/guards/redaction.ts'
import type { Passage } from '../chunking.ts'
import type { PackedSegment, PreparedDocument } from '../prepared-document.ts'

/** A document for a worker: its path or its content. `name` determines the format. `source` is the displayed name. */
export type FileToRead = { name: string; source: string; type: string; content: string | Uint8Array }

/** A file whose text is returned. `name` may be empty; the type then determines the format. */
export type TextToRead = { name: string; type: string; content: Uint8Array }

/** Passages of one stored document. */
export type PassagesToPrepare = { title: string; source: string; passages: readonly Passage[] }

/**
 * A task for a worker. `read`: read files in order, with the given RuleSources in JSON. `text`: return the text of a
 * file, of at most `limit` characters. `prepare`: create one segment
 * of passages. `join`: join several segments into one segment.
 */
export type WorkerTask =
  | { kind: 'read'; files: readonly FileToRead[]; rules?: string | undefined }
  | { kind: 'text'; file: TextToRead; limit: number }
  | { kind: 'prepare'; documents: readonly PassagesToPrepare[] }
  | { kind: 'join'; segments: readonly PackedSegment[] }

/**
 * The result of reading a file, and the matches of the rules in the file. `unreadable` is shown to the sender of the
 * file; `cause` is logged.
 */
export type FileOutcome = { hits: GuardHit[] } & (
  | { document: PreparedDocument }
  | { unreadable: string; cause: string | undefined }
)

/**
 * A worker's response to a task. The last message of a task is `read`, `text` or `joined`. `outcomes` and the small documents
 * in `together` (see Preparation) are in the order of the files. The contents of large documents are sent earlier, in
 * `part` messages. Each `part` message is small, so that receiving it does not block the daemon. `file` is the index of
 * the file to which a `part` belongs.
 */
export type WorkerMessage =
  | { kind: 'part'; file: number; batches: Uint8Array[]; segments: PackedSegment[] }
  | { kind: 'read'; outcomes: FileOutcome[]; together: PackedSegment | undefined }
  | { kind: 'text'; text: string | undefined }
  | { kind: 'joined'; segment: PackedSegment }

/**
 * A message from the process to the daemon. After `failed`, the process cannot be used again. `reason` states whether a
 * file took too much memory.
 */
export type ProcessMessage = WorkerMessage | { kind: 'failed'; reason: 'memory' | 'fault'; message: string }

/**
 * The options of a process. `worker`: the script of the worker thread, if not the default. `growthBytes`: see
 * EXTRACT_GROWTH_BYTES.
 */
export type ProcessOptions = { worker?: string | undefined; heapMb: number; growthBytes: number; lowPriority: boolean }
