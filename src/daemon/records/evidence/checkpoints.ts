import { LRUCache } from 'lru-cache'
import { logId } from '../../../shared/evidence/entry.ts'
import type { Frontier } from '../../../shared/evidence/frontier.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { HASH_BYTES } from '../../../shared/evidence/merkle.ts'
import { chainOrigin, checkpointText, NoteError, signedNote } from '../../../shared/evidence/note.ts'
import { EVIDENCE_CHECKPOINT, EVIDENCE_TREES } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { EvidenceCheckpointRow, Tables } from '../../platform/db/tables.ts'
import { createPacer } from '../../platform/pacing.ts'
import type { CheckpointPublisher } from './checkpoint-publisher.ts'
import { BITS_PER_LEVEL, frontierOf, readHashes } from './proofs.ts'
import { signedCheckpoint } from './signed-checkpoint.ts'
import type { SigningKeys } from './signing-keys.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

/** Signed heads of the chains, so that whoever has one can tell whether a chain was cut or written anew since. */
export type Checkpoints = {
  /**
   * Of each chain of the tenant, or of one, the checkpoint over all it has now: made where there is none yet, published anyhow.
   * A chain that does not agree with its last checkpoint gets none.
   */
  make(tenantId: string, chain?: string): Promise<EvidenceCheckpointRow[]>
  /** Makes those that are due: EVIDENCE_CHECKPOINT. */
  run(): Promise<void>
  /** The same soon, once for all who ask meanwhile. */
  wake(): void
  /** Whether some chain, of whatever tenant, did not agree with its last checkpoint when the next was to be made. */
  foundDamage(): boolean
  /** Waits for what is under way; nothing is started any more. */
  close(): Promise<void>
}

export type CheckpointDeps = {
  db: Db
  clock: Clock
  log: { error(details: object, message: string): void }
  keys: Pick<SigningKeys, 'current' | 'published'>
  publisher: CheckpointPublisher
}

const ENTRIES_PER_READ = 1_000
/** What stands before this many entries is in nodes when a checkpoint was made after them. */
const NODE_LEAVES = 2 ** BITS_PER_LEVEL

/** A chain that is not what its last checkpoint says. Another one would make what was done to it genuine. */
class DamagedChainError extends Error {
  override name = 'DamagedChainError'
}

/** A checkpoint that was made here, what it signs, and as much of its tree as no later entry changes. */
type Grown = { checkpoint: EvidenceCheckpointRow; root: Buffer; tree: Frontier }

export function createCheckpoints({ db, clock, log, keys, publisher }: CheckpointDeps): Checkpoints {
  let running: Promise<void> | undefined
  let isAskedAgain = false
  let isClosed = false
  /** Log ids. */
  const damaged = new Set<string>()
  /** By log id. */
  const grown = new LRUCache<string, Grown>({ max: EVIDENCE_TREES })

  async function make(tenantId: string, only?: string): Promise<EvidenceCheckpointRow[]> {
    const made: EvidenceCheckpointRow[] = []
    for (const measured of await measureChains(db, tenantId)) {
      if (only !== undefined && measured.chain !== only) continue
      const checkpoint = await makeUnlessDamaged(measured)
      if (checkpoint) made.push(checkpoint)
    }
    return made
  }

  /** @throws what the store throws */
  async function makeUnlessDamaged(measured: MeasuredChain): Promise<EvidenceCheckpointRow | undefined> {
    const id = logId(measured.tenant_id, measured.chain)
    try {
      const checkpoint = await makeOne(measured)
      damaged.delete(id)
      return checkpoint
    } catch (error) {
      if (!(error instanceof DamagedChainError)) throw error
      const { tenant_id, chain } = measured
      // It is looked at every minute.
      if (!damaged.has(id)) log.error({ error, tenant_id, chain }, 'a log is damaged and gets no checkpoints')
      damaged.add(id)
      return undefined
    }
  }

  async function makeOne(measured: MeasuredChain): Promise<EvidenceCheckpointRow> {
    const { tenant_id, chain, size, checkpointed } = measured
    const id = logId(tenant_id, chain)
    const last = checkpointed > 0 ? await findCheckpoint(db, tenant_id, chain, checkpointed) : undefined
    const known = grown.get(id)
    // What was signed here, and is still the same, needs no proof.
    const own = last && known && isSameRow(known.checkpoint, last) ? known : undefined
    const lastRoot = own ? own.root : last && rootOf(last, await keys.published())
    if (last && size === checkpointed) {
      // It may have missed a place when it was made.
      await publisher.publish(last)
      return last
    }
    const { root, nodes, tree } = await growTree(db, measured, lastRoot, own?.tree)
    const signer = await keys.current()
    const origin = chainOrigin(signer.name, tenant_id, chain)
    const text = checkpointText({ origin, size, root: root.toString('base64') })
    const checkpoint: EvidenceCheckpointRow = {
      tenant_id,
      chain,
      tree_size: size,
      root: root.toString('hex'),
      kid: signer.kid,
      note: signedNote(text, signer.name, signer.publicKey, signer.sign(text)),
      created_at: isoTime(clock.now()),
    }
    const isNew = await db.transaction().execute(async (tx) => {
      await insertRows(tx, 'evidence_nodes', nodes, { onConflict: 'ignore' })
      return (await insertRows(tx, 'evidence_checkpoints', [checkpoint], { onConflict: 'ignore' })) === 1
    })
    // Another daemon may have made it a moment ago; then that is the one.
    if (!isNew) return (await findCheckpoint(db, tenant_id, chain, size)) ?? checkpoint
    grown.set(id, { checkpoint, root, tree })
    await publisher.publish(checkpoint)
    return checkpoint
  }

  async function run(): Promise<void> {
    const hourAgo = isoTime(clock.now() - EVIDENCE_CHECKPOINT.ms)
    const inAnHour = isoTime(clock.now() + EVIDENCE_CHECKPOINT.ms)
    for (const measured of await measureChains(db)) {
      const { tenant_id, chain, size, checkpointed, waiting_since } = measured
      const isDue =
        size < checkpointed ||
        size - checkpointed >= EVIDENCE_CHECKPOINT.entries ||
        // What is far ahead was written when the clock was, and may otherwise wait for years.
        (waiting_since !== null && (waiting_since <= hourAgo || waiting_since >= inAnHour))
      if (!isDue || isClosed) continue
      try {
        await makeUnlessDamaged(measured)
      } catch (error) {
        // The others have theirs all the same.
        log.error({ error, tenant_id, chain }, 'a checkpoint could not be made')
      }
    }
  }

  async function runUntilNobodyAsks(): Promise<void> {
    do {
      isAskedAgain = false
      await run()
    } while (isAskedAgain && !isClosed)
  }

  /** Never twice at once: whoever asks meanwhile gets a run that began after they asked. */
  function runOnce(): Promise<void> {
    if (isClosed) return Promise.resolve()
    if (running) isAskedAgain = true
    else {
      running = runUntilNobodyAsks().finally(() => {
        running = undefined
      })
    }
    return running ?? Promise.resolve()
  }

  return {
    make,
    run: runOnce,
    wake() {
      runOnce().catch((error) => log.error({ error }, 'checkpoints could not be made'))
    },
    foundDamage: () => damaged.size > 0,
    async close() {
      isClosed = true
      // Whoever asked for it hears of its failure.
      await running?.catch(() => {})
      await publisher.close()
    },
  }
}

function isSameRow(a: EvidenceCheckpointRow, b: EvidenceCheckpointRow): boolean {
  return a.tree_size === b.tree_size && a.root === b.root && a.kid === b.kid && a.note === b.note
}

/** The root that was signed. @throws DamagedChainError for a checkpoint that was changed */
function rootOf(checkpoint: EvidenceCheckpointRow, keys: readonly PublishedKey[]): Buffer {
  try {
    return Buffer.from(signedCheckpoint(checkpoint, keys).root, 'base64')
  } catch (error) {
    if (!(error instanceof NoteError)) throw error
    throw new DamagedChainError(`the checkpoint of ${checkpoint.tree_size} entries is broken: ${error.message}`)
  }
}

/**
 * The root over all entries of a chain, the nodes that came since its last checkpoint, on whose tree it goes on, and its tree
 * up to the last node.
 * @param lastRoot what that checkpoint says; undefined without one
 * @param known its tree up to its last node, where that is remembered
 * @throws DamagedChainError for a chain that lacks entries, or whose tree is not the one that was signed
 */
async function growTree(
  db: Db,
  { tenant_id, chain, checkpointed, size }: MeasuredChain,
  lastRoot: Buffer | undefined,
  known: Frontier | undefined,
): Promise<{ root: Buffer; nodes: Tables['evidence_nodes'][]; tree: Frontier }> {
  if (size < checkpointed) throw new DamagedChainError(`it has ${size} entries, and a checkpoint of ${checkpointed}`)
  const tree = known?.copy() ?? (await startTree(db, tenant_id, chain, checkpointed - (checkpointed % NODE_LEAVES)))
  const compareWithLast = () => {
    if (lastRoot === undefined || tree.size !== checkpointed || tree.root().equals(lastRoot)) return
    throw new DamagedChainError(`its first ${checkpointed} entries are not those of their checkpoint`)
  }
  compareWithLast()
  const nodes: Tables['evidence_nodes'][] = []
  const { turn: rest } = createPacer()
  while (tree.size < size) {
    const end = tree.size < checkpointed ? checkpointed : size
    const [from, to] = [tree.size, Math.min(end, tree.size + ENTRIES_PER_READ)]
    const hashes = await readHashes(db, tenant_id, chain, { from, to })
    if (hashes.length !== (to - from) * HASH_BYTES) {
      throw new DamagedChainError(`it lacks some of its entries ${from} to ${to - 1}`)
    }
    tree.append(hashes, (bits, node_index, root) => {
      if (bits % BITS_PER_LEVEL !== 0) return
      nodes.push({ tenant_id, chain, level: bits / BITS_PER_LEVEL, node_index, hash: root.toString('hex') })
    })
    compareWithLast()
    await rest()
  }
  return { root: tree.root(), nodes, tree: tree.wholePart(BITS_PER_LEVEL) }
}

async function startTree(db: Db, tenantId: string, chain: string, size: number): Promise<Frontier> {
  try {
    return await frontierOf(db, tenantId, chain, size)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new DamagedChainError(error.message)
  }
}
