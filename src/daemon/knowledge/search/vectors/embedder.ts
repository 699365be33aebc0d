import { randomUUID } from 'node:crypto'
import {
  EMBEDDING_ATTEMPT_MS,
  EMBEDDING_CALLS,
  EMBEDDING_DOCUMENTS,
  EMBEDDING_LOOK_MS,
  EMBEDDING_RETRY_MS,
} from '../../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../../shared/time.ts'
import { ProviderError } from '../../../models/provider.ts'
import type { Db } from '../../../platform/db/db.ts'
import { engineOf } from '../../../platform/db/engine.ts'
import { readLeaseTime } from '../../../platform/db/lease-time.ts'
import type { Log } from '../../../platform/log.ts'
import type { IndexKey } from '../../indexes/document-types.ts'
import { type EmbeddingDeps, EmbeddingFault, embedTexts, isRefusal } from './embedding-call.ts'
import { claimWork, type EmbeddingModel, learnDimensions, releaseWork } from './models.ts'
import { passageText } from './rerank.ts'
import { toColumns, toUnitVector } from './stored-vector.ts'
import {
  findPendingDocuments,
  findPendingIndex,
  findUnembedded,
  findUnfinished,
  insertVectors,
  markEmbedded,
  type PassageText,
  type PassageVector,
  type PendingDocument,
  serveOnly,
} from './vector-store.ts'

export type Embedder = {
  /** Ends the calls under way and leaves the rest to the next daemon. */
  close(): Promise<void>
}

type EmbedderDeps = EmbeddingDeps & { db: Db; clock: Clock; log: Pick<Log, 'info' | 'warn' | 'error'> }

/** `missing`: passages whose vectors were of zeros, which is a fault of the model, and may pass. */
type Embedded = { vectors: PassageVector[]; missing: number[] }

/** A text that any model embeds: it tells a model that refuses one passage from one that refuses everything. */
const HARMLESS = 'hello'

/**
 * Embeds in the background what is published and has no vector of this model: now, and whatever comes. Indexes take turns. One
 * daemon does it for all on a store, under a lease that it renews; where it is interrupted, what it has stored stays. A
 * model that fails is asked again later and later.
 */
export function startEmbedder(model: EmbeddingModel, batch: number, deps: EmbedderDeps): Embedder {
  const { db, clock, log } = deps
  const owner = randomUUID()
  const stopping = new AbortController()
  let isClaimed = false
  let failuresInARow = 0
  let timer: Timer | undefined
  let running: Promise<void> = look()

  /** Runs whenever its time has come, never twice at once. */
  async function look(): Promise<void> {
    let waitMs = EMBEDDING_LOOK_MS
    try {
      await work()
      failuresInARow = 0
    } catch (error) {
      if (!stopping.signal.aborted) {
        const asked = error instanceof ProviderError ? (error.retryAfterSeconds ?? 0) * 1000 : 0
        waitMs = Math.min(Math.max(EMBEDDING_RETRY_MS.min * 2 ** failuresInARow++, asked), EMBEDDING_RETRY_MS.max)
        deps.metrics.failed('passages')
        log.error({ error, model: model.model, retryInMs: waitMs }, 'passages cannot be embedded now')
      }
    }
    if (stopping.signal.aborted) return
    timer = clock.after(waitMs, () => {
      running = look()
    })
  }

  /** @throws EmbeddingFault when all is done but documents of which passages have no vector to be stored; they stay pending */
  async function work(): Promise<void> {
    const postponed: string[] = []
    let last: IndexKey | undefined
    for (;;) {
      const index = await findPendingIndex(db, model.id, last, postponed)
      if (index) {
        if (!(await claim())) return
        await embedDocuments(index, postponed)
        // So many are no matter of single passages.
        if (postponed.length >= EMBEDDING_DOCUMENTS) break
      } else if (last === undefined) break
      last = index
    }
    if (postponed.length > 0) {
      throw new EmbeddingFault(`${model.model} has made vectors of zeros for passages of ${postponed.length} documents`)
    }
    // Nothing is pending anywhere, so what another model has left is needed no more.
    for (let index = await findUnfinished(db, model.id); index; index = await findUnfinished(db, model.id)) {
      if (!(await claim())) return
      await serveOnly(db, index, model.id)
    }
  }

  async function claim(): Promise<boolean> {
    if (stopping.signal.aborted) return false
    isClaimed = await claimWork(db, { modelId: model.id, owner, now: await readLeaseTime(db, clock.now()) })
    return isClaimed
  }

  /** Some documents of an index, each as a whole; those that have to be tried again are added to `postponed`. */
  async function embedDocuments(index: IndexKey, postponed: string[]): Promise<void> {
    const documents = await findPendingDocuments(db, index, model.id, EMBEDDING_DOCUMENTS, postponed)
    const missing: number[] = []
    for (const ids of pieces(passageIds(documents), batch * EMBEDDING_CALLS)) {
      const passages = await findUnembedded(db, index, model.id, ids)
      if (passages.length === 0) continue
      if (!(await claim())) return
      const calls = await Promise.allSettled([...pieces(passages, batch)].map((some) => embedPassages(index, some)))
      // Only when all have ended: what one has stored is not embedded again because another failed.
      for (const call of calls) {
        if (call.status === 'rejected') throw call.reason
        missing.push(...call.value)
      }
    }
    const isMissing = ({ passages: { first, count } }: PendingDocument) =>
      missing.some((id) => id >= first && id < first + count)
    postponed.push(...documents.filter(isMissing).map(({ id }) => id))
    const complete = documents.filter((document) => !isMissing(document)).map(({ id }) => id)
    if (complete.length > 0) await markEmbedded(db, index, model.id, complete)
    const [more] = await findPendingDocuments(db, index, model.id, 1)
    if (more) return
    await serveOnly(db, index, model.id)
    log.info({ index: index.indexId, tenant: index.tenantId, model: model.model }, 'an index has all its vectors')
  }

  /** @returns the passages whose vectors were of zeros, and are not stored */
  async function embedPassages(index: IndexKey, passages: readonly PassageText[]): Promise<number[]> {
    const { vectors, missing } = await vectorsOf(passages)
    if (vectors.length > 0) {
      await db.transaction().execute((tx) => insertVectors(tx, index, model.id, vectors))
      deps.metrics.embedded(vectors.length)
    }
    return missing
  }

  /** Without those of passages that the model refuses: what it takes one by one, it may refuse all at once. */
  async function vectorsOf(passages: readonly PassageText[]): Promise<Embedded> {
    try {
      const embedded: Embedded = { vectors: [], missing: [] }
      for (const [at, numbers] of (await embed(passages.map(passageText))).entries()) {
        const { id: passageId } = passages[at] as PassageText
        const vector = toUnitVector(numbers)
        // Here and not where they are written, because it takes longer than that.
        if (vector) embedded.vectors.push({ passageId, ...toColumns(vector, engineOf(db).name) })
        else embedded.missing.push(passageId)
      }
      return embedded
    } catch (error) {
      const [first] = passages
      if (!isRefusal(error) || !first) throw error
      if (passages.length === 1) {
        await embed([HARMLESS])
        leaveOut(first.id, error)
        return { vectors: [], missing: [] }
      }
      const half = Math.ceil(passages.length / 2)
      const one = await vectorsOf(passages.slice(0, half))
      const other = await vectorsOf(passages.slice(half))
      return { vectors: [...one.vectors, ...other.vectors], missing: [...one.missing, ...other.missing] }
    }
  }

  async function embed(texts: readonly string[]): Promise<number[][]> {
    const limits = { work: 'passages', attemptMs: EMBEDDING_ATTEMPT_MS } as const
    const vectors = await embedTexts(model, texts, limits, deps, stopping.signal)
    const length = vectors[0]?.length ?? 0
    const learned = model.dimensions || (await learnDimensions(db, model.id, length))
    if (learned !== length)
      throw new EmbeddingFault(`${model.model} has vectors of ${length} and of ${learned} numbers`)
    model = { ...model, dimensions: learned }
    return vectors
  }

  function leaveOut(passageId: number, error: unknown): void {
    deps.metrics.refused()
    log.warn({ error, passage: passageId, model: model.model }, 'a passage is left out of the vectors')
  }

  return {
    async close() {
      stopping.abort()
      timer?.cancel()
      await running
      if (isClaimed) await releaseWork(db, owner)
    },
  }
}

/** The ids of all passages of these documents. */
function* passageIds(documents: readonly PendingDocument[]): Generator<number> {
  for (const { passages } of documents) {
    for (let id = passages.first; id < passages.first + passages.count; id++) yield id
  }
}

function* pieces<T>(all: Iterable<T>, size: number): Generator<T[]> {
  let piece: T[] = []
  for (const one of all) {
    piece.push(one)
    if (piece.length < size) continue
    yield piece
    piece = []
  }
  if (piece.length > 0) yield piece
}
