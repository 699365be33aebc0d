import { randomUUID } from 'node:crypto'
import type { Clock, Timer } from '../../../../shared/time.ts'
import type { Vector } from '../../../models/provider.ts'
import { ProviderError } from '../../../models/provider.ts'
import type { Db } from '../../../platform/db/db.ts'
import { engineOf } from '../../../platform/db/engine.ts'
import { readLeaseTime } from '../../../platform/db/lease-time.ts'
import type { Log } from '../../../platform/log.ts'
import type { IndexKey } from '../../indexes/document-types.ts'
import { type EmbeddingDeps, EmbeddingFault, embedTexts, isRefusal } from './embedding-call.ts'
import type { MayEmbed } from './embedding-permission.ts'
import { claimWork, type EmbeddingModel, learnDimensions, releaseWork } from './models.ts'
import { passageText } from './rerank.ts'
import { toColumns, toUnitVector } from './stored-vector.ts'
import {
  findPendingDocuments,
  findPendingIndex,
  findPendingPolicies,
  findUnembedded,
  findUnfinished,
  insertVectors,
  markEmbedded,
  type PassageText,
  type PassageVector,
  type PendingDocument,
  serveOnly,
} from './vector-store.ts'

/** The maximum number of concurrent calls, and the timeout of one call. */
const EMBEDDING_CALLS = 4
const EMBEDDING_ATTEMPT_MS = 60_000
/** The interval at which the embedder searches for passages without a vector. */
export const EMBEDDING_LOOK_MS = 2_000
/** The delay after a failure: `min` at first, doubled after each further failure, up to `max`. */
export const EMBEDDING_RETRY_MS = { min: 1_000, max: 300_000 } as const
/** How many documents of one index are embedded before the next index has its turn. */
const EMBEDDING_DOCUMENTS = 64
/** How long an index is skipped after policies withheld all of its documents from the model. */
export const EMBEDDING_WITHHELD_MS = 60_000

export type Embedder = {
  /** Aborts the calls in flight; the next daemon does the remaining work. */
  close(): Promise<void>
}

type EmbedderDeps = EmbeddingDeps & {
  db: Db
  clock: Clock
  log: Pick<Log, 'info' | 'warn' | 'error'>
  /** By default, every policy allows the model. */
  mayEmbed?: MayEmbed
}

/** `missing` lists the passages for which the model returned a zero vector. A zero vector may be a temporary fault. */
type Embedded = { vectors: PassageVector[]; missing: number[] }

/** A text that any model can embed. Embedding this text shows whether a model rejects one passage or all input. */
const HARMLESS = 'hello'

// The states of a daemon's embedder:
//   waiting -> working: the timer has fired.
//   working -> waiting for EMBEDDING_LOOK_MS: no work is pending, or another daemon has the lease.
//   working -> waiting longer (for EMBEDDING_RETRY_MS or the provider's Retry-After): a call or a store operation
//   failed.
//   waiting or working -> closed: calls are aborted, then the lease is released.
// The states of a document for one model:
//   pending -> embedded: for each passage, the vector is stored or the model permanently rejects the passage.
//   pending -> pending: a passage got a zero vector, so the document is retried. Or the policy of the document forbids
//   the model; the document is embedded once the policy allows it.
// When all documents of an index are embedded, its searches use only vectors of this model.

/**
 * Continuously embeds published passages that have no vector of this model, in the background. Indexes are served
 * round-robin. If several daemons share a store, only the daemon that has the lease embeds. Stored vectors survive an
 * interruption. A failing model is retried with growing delays.
 */
export function startEmbedder(model: EmbeddingModel, batch: number, deps: EmbedderDeps): Embedder {
  const { db, clock, log, mayEmbed = () => Promise.resolve(true) } = deps
  const owner = randomUUID()
  const stopping = new AbortController()
  let isClaimed = false
  let failuresInARow = 0
  /** The time until which each index is skipped, because policies withhold its documents from the model. */
  const withheld = new Map<string, number>()
  let timer: Timer | undefined
  let running: Promise<void> = look()

  /** Runs when the timer fires, and never concurrently with itself. */
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
        log.error({ error, model: model.model, retryInMs: waitMs }, 'passages could not be embedded; retrying later')
      }
    }
    if (stopping.signal.aborted) return
    timer = clock.after(waitMs, () => {
      running = look()
    })
  }

  /**
   * @throws EmbeddingFault if every remaining document has passages that cannot be embedded. These documents stay
   * pending.
   */
  async function work(): Promise<void> {
    const postponed: string[] = []
    let last: IndexKey | undefined
    /** Whether the current round over all indexes has found documents that the model may read. */
    let isActive = false
    for (;;) {
      const index = await findPendingIndex(db, model.id, last, postponed)
      if (index) {
        const documents = await nextDocuments(index, EMBEDDING_DOCUMENTS, postponed)
        if (documents.length > 0) {
          isActive = true
          if (!(await claim())) return
          await embedDocuments(index, documents, postponed)
          // So many failures indicate that the cause is the model, not single passages.
          if (postponed.length >= EMBEDDING_DOCUMENTS) break
        }
      } else if (!isActive) break
      else isActive = false
      last = index
    }
    if (postponed.length > 0) {
      throw new EmbeddingFault(`${model.model} returned zero vectors for passages of ${postponed.length} documents`)
    }
    // All documents are embedded, so vectors of other models are no longer needed.
    for (let index = await findUnfinished(db, model.id); index; index = await findUnfinished(db, model.id)) {
      if (!(await claim())) return
      await serveOnly(db, index, model.id)
    }
  }

  /** Returns documents of an index that the model may read, except `postponed`. */
  async function nextDocuments(
    index: IndexKey,
    limit: number,
    postponed: readonly string[],
  ): Promise<PendingDocument[]> {
    const name = `${index.tenantId} ${index.indexId}`
    if (clock.monotonic() < (withheld.get(name) ?? 0)) return []
    const mayRead = (policyId: string | null) => mayEmbed(model.model, index.tenantId, policyId)
    const first = await findPendingDocuments(db, index, model.id, { limit, except: postponed })
    const allowed: PendingDocument[] = []
    for (const document of first) if (await mayRead(document.policyId)) allowed.push(document)
    if (allowed.length > 0 || first.length === 0) return allowed
    const policyIds: (string | null)[] = []
    for (const { policyId } of await findPendingPolicies(db, index, model.id)) {
      if (await mayRead(policyId)) policyIds.push(policyId)
    }
    if (policyIds.length > 0) return findPendingDocuments(db, index, model.id, { limit, policyIds, except: postponed })
    if (!withheld.has(name)) {
      const facts = { index: index.indexId, tenant: index.tenantId, model: model.model }
      log.info(facts, 'the policy forbids the embedding model, so only keyword search finds these documents')
    }
    withheld.set(name, clock.monotonic() + EMBEDDING_WITHHELD_MS)
    return []
  }

  async function claim(): Promise<boolean> {
    if (stopping.signal.aborted) return false
    isClaimed = await claimWork(db, { modelId: model.id, owner, now: await readLeaseTime(db, clock.now()) })
    return isClaimed
  }

  /**
   * Embeds these documents of an index, each document completely. If a document must be retried, its id is added to
   * `postponed`.
   */
  async function embedDocuments(
    index: IndexKey,
    documents: readonly PendingDocument[],
    postponed: string[],
  ): Promise<void> {
    const missing: number[] = []
    for (const ids of pieces(passageIds(documents), batch * EMBEDDING_CALLS)) {
      const passages = await findUnembedded(db, index, model.id, ids)
      if (passages.length === 0) continue
      if (!(await claim())) return
      const calls = await Promise.allSettled([...pieces(passages, batch)].map((some) => embedPassages(index, some)))
      // Wait for all calls, even if one fails: vectors that the other calls store need not be computed again.
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
    const [more] = await nextDocuments(index, 1, [])
    if (more) return
    await serveOnly(db, index, model.id)
    log.info(
      { index: index.indexId, tenant: index.tenantId, model: model.model },
      'all passages of an index are embedded',
    )
  }

  /** @returns the passages for which the model returned a zero vector; such vectors are not stored */
  async function embedPassages(index: IndexKey, passages: readonly PassageText[]): Promise<number[]> {
    const { vectors, missing } = await vectorsOf(passages)
    if (vectors.length > 0) {
      await db.transaction().execute((tx) => insertVectors(tx, index, model.id, vectors))
      deps.metrics.embedded(vectors.length)
    }
    return missing
  }

  /**
   * Returns the vectors of all passages that the model accepts. If the model rejects a batch, the batch is halved
   * repeatedly, because the model may accept most of its passages.
   */
  async function vectorsOf(passages: readonly PassageText[]): Promise<Embedded> {
    try {
      const embedded: Embedded = { vectors: [], missing: [] }
      for (const [at, numbers] of (await embed(passages.map(passageText))).entries()) {
        const { id: passageId } = passages[at] as PassageText
        const vector = toUnitVector(numbers)
        // Convert the vectors before the transaction, to keep it short: the conversion takes longer than the write.
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

  async function embed(texts: readonly string[]): Promise<Vector[]> {
    const limits = { work: 'passages', attemptMs: EMBEDDING_ATTEMPT_MS } as const
    const vectors = await embedTexts(model, texts, limits, deps, stopping.signal)
    const length = vectors[0]?.length ?? 0
    const learned = model.dimensions || (await learnDimensions(db, model.id, length))
    if (learned !== length)
      throw new EmbeddingFault(`${model.model} returned vectors of different lengths: ${length} and ${learned}`)
    model = { ...model, dimensions: learned }
    return vectors
  }

  function leaveOut(passageId: number, error: unknown): void {
    deps.metrics.refused()
    log.warn({ error, passage: passageId, model: model.model }, 'a passage cannot be embedded and is skipped')
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

/** Returns the ids of all passages of these documents. */
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
