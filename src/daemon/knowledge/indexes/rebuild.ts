import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { type Clock, isoTime, type Timer } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { readLeaseTime } from '../../platform/db/lease-time.ts'
import type { PassagesToPrepare } from '../ingest/extract/messages.ts'
import type { Extractor, WorkFor } from '../ingest/extract/pool.ts'
import type { PackedSegment } from '../ingest/prepared-document.ts'
import { writePages } from '../ingest/replacement.ts'
import { type DocumentRun, findRuns, markShared, readPassages } from './document-store.ts'
import type { IndexKey } from './document-types.ts'
import { mergeSegments, removeAbandonedMerges, SegmentsTaken } from './merge.ts'
import {
  abandonMerge,
  claimForMerge,
  findSegments,
  findUnmerged,
  insertSegment,
  publishRebuilt,
  renewDrafts,
} from './segment-store.ts'

/** A merge or rebuild counts as abandoned if its daemon has not renewed the lease for this duration. */
export const MERGE_LEASE_MS = 150_000
/** The interval at which a rebuild renews its lease, and the delay before a failed rebuild is retried. */
const REBUILD_RENEW_MS = 30_000
const REBUILD_PAUSE_MS = 250

/** The counts of a completed rebuild. */
export type Rebuilt = { documents: number; passages: number }

/** Runs `publish` in a transaction and commits it together with the caller's own writes. */
export type InPublication = (publish: (tx: Db) => Promise<void>, rebuilt: Rebuilt) => Promise<void>

type RebuildDeps = {
  db: Db
  clock: Clock
  extractor: Extractor
  inPublication: InPublication
}

/** The number of passages in one task for the worker thread, and in one new segment. */
const PASSAGES_PER_TASK = 512
const PASSAGES_PER_SEGMENT = 4_096
/**
 * Maximum number of attempts. If a segment is claimed by other work, such as a training, the rebuild is retried. Each
 * pause between attempts is longer than the previous pause.
 */
const ATTEMPTS = 4

/**
 * Rebuilds the search index of a knowledge base from its passages, in the format of this gateway version. Searches use
 * the old index until the rebuild is complete. Changes by concurrent trainings and deletions are kept. Passages, their
 * ids and their vectors do not change. Safe to interrupt.
 * @throws REBUILD_CONFLICT if the index kept changing; the reason of `signal`
 */
export async function rebuildIndex(index: IndexKey, deps: RebuildDeps, signal: AbortSignal): Promise<Rebuilt> {
  const { db, clock } = deps
  for (let attempt = 1; ; attempt++) {
    const now = await readLeaseTime(db, clock.now())
    await removeAbandonedMerges(db, index.tenantId, isoTime(now - MERGE_LEASE_MS))
    try {
      return await tryToRebuild(index, deps, signal)
    } catch (error) {
      if (!(error instanceof SegmentsTaken)) throw error
    }
    if (attempt === ATTEMPTS) throw conflict()
    await pause(clock, REBUILD_PAUSE_MS * attempt, signal)
  }
}

const conflict = () =>
  new GatewayError('REBUILD_CONFLICT', 'Documents of this index are being added or removed. Retry later.')

/** Resolves after `ms`. @throws the reason of `signal` */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      timer.cancel()
      reject(signal.reason)
    }
    const timer = clock.after(ms, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** @throws SegmentsTaken if the segments are already claimed; in this case, all segments are unchanged */
async function tryToRebuild(index: IndexKey, deps: RebuildDeps, signal: AbortSignal): Promise<Rebuilt> {
  const { db, clock, extractor, inPublication } = deps
  const { tenantId } = index
  const rebuild = newId()
  const drafts = [rebuild]
  const leaseTime = async () => isoTime(await readLeaseTime(db, clock.now()))
  const claimed = await claimAll(db, index, rebuild, await leaseTime())
  let rebuilt: Rebuilt
  const lease = keepRenewing(clock, async () => renewDrafts(db, tenantId, drafts, await leaseTime()))
  try {
    const runs = await findRunsOf(db, index, claimed)
    for await (const { segment, ids } of segmentsOf(index, runs, { db, extractor }, { tenantId, signal })) {
      const id = newId()
      drafts.push(id)
      const { lengths, ends } = segment
      await insertSegment(
        db,
        index,
        { id, documentId: null, state: 'draft', ids, lengths, pageCount: ends.length },
        await leaseTime(),
      )
      await writePages(db, tenantId, id, segment, signal)
    }
    const documents = runs.map(({ documentId }) => documentId)
    await markShared(db, index, documents)
    rebuilt = { documents: runs.length, passages: runs.reduce((sum, { count }) => sum + count, 0) }
    await inPublication(async (tx) => {
      if (!(await publishRebuilt(tx, tenantId, { rebuild, sources: claimed.size, drafts }))) throw new SegmentsTaken()
    }, rebuilt)
  } catch (error) {
    let wasThere = true
    for (const id of drafts) {
      const isAbandoned = await db.transaction().execute((tx) => abandonMerge(tx, tenantId, id))
      if (id === rebuild) wasThere = isAbandoned
    }
    // If the claim is missing, either the index was deleted or the rebuild took too long. The next attempt determines
    // the cause.
    throw wasThere || error instanceof GatewayError ? error : new SegmentsTaken()
  } finally {
    await lease.stop()
  }
  await mergeSegments(db, index, isoTime(clock.now()))
  return rebuilt
}

/**
 * Runs `renew` periodically until it is stopped. A failed renewal is ignored, because the next renewal extends the
 * lease.
 */
function keepRenewing(clock: Clock, renew: () => Promise<void>): { stop(): Promise<void> } {
  let running = Promise.resolve()
  let isStopped = false
  let timer: Timer
  const wait = () => {
    timer = clock.after(REBUILD_RENEW_MS, () => {
      running = renew()
        .catch(() => {})
        .then(() => {
          if (!isStopped) wait()
        })
    })
  }
  wait()
  return {
    async stop() {
      isStopped = true
      timer.cancel()
      await running
    },
  }
}

/** Claims all segments, as a merge does, and returns their ids. @throws SegmentsTaken */
async function claimAll(db: Db, index: IndexKey, rebuild: string, now: string): Promise<ReadonlySet<string>> {
  return db.transaction().execute(async (tx) => {
    const ids = (await findUnmerged(tx, index)).map(({ id }) => id)
    // The claim must cover all segments, because a document may be in several segments.
    if ((await findSegments(tx, index)).length !== ids.length) throw new SegmentsTaken()
    // Insert an empty segment. After a crash, this segment identifies the segments to release.
    const nothing = { ids: new Float64Array(), lengths: new Uint16Array(), pageCount: 1 }
    await insertSegment(tx, index, { id: rebuild, documentId: null, state: 'draft', ...nothing }, now)
    if (ids.length > 0 && !(await claimForMerge(tx, index.tenantId, ids, rebuild))) throw new SegmentsTaken()
    return new Set(ids)
  })
}

/** Returns the documents of these segments. */
async function findRunsOf(db: Db, index: IndexKey, segmentIds: ReadonlySet<string>): Promise<DocumentRun[]> {
  const segments = (await findSegments(db, index)).filter(({ id }) => segmentIds.has(id))
  const held = new Set<number>()
  for (const { ids } of segments) for (const id of ids) held.add(id)
  return (await findRuns(db, index)).filter(({ first }) => held.has(first))
}

/** Creates new segments from all passages of these documents, in the order of the passage ids. */
async function* segmentsOf(
  index: IndexKey,
  runs: readonly DocumentRun[],
  { db, extractor }: Pick<RebuildDeps, 'db' | 'extractor'>,
  by: WorkFor,
): AsyncGenerator<{ segment: PackedSegment; ids: Float64Array }> {
  let parts: PackedSegment[] = []
  let ids: number[] = []
  for await (const pieces of piecesOf(db, index, runs)) {
    by.signal.throwIfAborted()
    parts.push(await extractor.prepare(pieces, by))
    for (const { run, passages } of pieces) for (const { position } of passages) ids.push(run.first + position)
    if (ids.length < PASSAGES_PER_SEGMENT) continue
    yield { segment: await extractor.join(parts, by), ids: Float64Array.from(ids) }
    parts = []
    ids = []
  }
  if (parts.length > 0) yield { segment: await extractor.join(parts, by), ids: Float64Array.from(ids) }
}

type Piece = PassagesToPrepare & { run: DocumentRun }

/** Reads the passages of these documents, about PASSAGES_PER_TASK at a time. */
async function* piecesOf(db: Db, index: IndexKey, runs: readonly DocumentRun[]): AsyncGenerator<Piece[]> {
  let pieces: Piece[] = []
  let count = 0
  for (const run of runs) {
    for (let from = 0; from < run.count; from += PASSAGES_PER_TASK) {
      const page = { from, limit: PASSAGES_PER_TASK }
      const passages = await readPassages(db, { ...index, documentId: run.documentId }, page)
      if (passages.length > 0) pieces.push({ title: run.title, source: run.source, passages, run })
      count += passages.length
      if (count < PASSAGES_PER_TASK) continue
      yield pieces
      pieces = []
      count = 0
    }
  }
  if (pieces.length > 0) yield pieces
}
