import type { GuardHit } from '../../../safety/guards/redaction.ts'
import type { Passage } from '../chunking.ts'
import type { PackedSegment, PreparedDocument } from '../prepared-document.ts'

/**
 * A document on its way to a worker: where it is, or what it holds. Its `name` tells what kind of file it is; it is called
 * `source` where it is shown.
 */
export type FileToRead = { name: string; source: string; type: string; content: string | Uint8Array }

/** Passages of one document that are stored already. */
export type PassagesToPrepare = { title: string; source: string; passages: readonly Passage[] }

/**
 * What a worker is asked for: to read files one after the other, under the rules that this RuleSources in JSON makes; one
 * segment of passages; one of several segments.
 */
export type WorkerTask =
  | { kind: 'read'; files: readonly FileToRead[]; rules?: string | undefined }
  | { kind: 'prepare'; documents: readonly PassagesToPrepare[] }
  | { kind: 'join'; segments: readonly PackedSegment[] }

/** What became of a file, and what rules found in it. `unreadable` is for the one who sent it, `cause` for the log. */
export type FileOutcome = { hits: GuardHit[] } & (
  | { document: PreparedDocument }
  | { unreadable: string; cause: string | undefined }
)

/**
 * What a worker answers a task with. `read` and `joined` are the end of it; `outcomes` are in the order of the files, and so are
 * the small documents among them in `together` (see Preparation). What large ones consist of comes before that, in parts that
 * the daemon takes in its stride: `part` is of the file at `file`, in order.
 */
export type WorkerMessage =
  | { kind: 'part'; file: number; batches: Uint8Array[]; segments: PackedSegment[] }
  | { kind: 'read'; outcomes: FileOutcome[]; together: PackedSegment | undefined }
  | { kind: 'joined'; segment: PackedSegment }

/** What the daemon hears of the process. After `failed`, which says whether a file took too much memory, it is of no more use. */
export type ProcessMessage = WorkerMessage | { kind: 'failed'; reason: 'memory' | 'fault'; message: string }

/** How a process is started. `worker`: the file that its thread runs, instead of ours; `growthBytes`: see EXTRACT_GROWTH_BYTES. */
export type ProcessOptions = { worker?: string | undefined; heapMb: number; growthBytes: number; lowPriority: boolean }
