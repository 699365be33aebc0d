import { LRUCache } from 'lru-cache'
import { logId } from '../../../shared/evidence/entry.ts'
import type { Frontier } from '../../../shared/evidence/frontier.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { HASH_BYTES } from '../../../shared/evidence/merkle.ts'
import { chainOrigin, checkpointText, NoteError, signedNote } from '../../../shared/evidence/note.ts'
import { EVIDENCE_CHECKPOINT } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { EvidenceCheckpointRow, Tables } from '../../platform/db/tables.ts'
import { createPacer } from '../../platform/pacing.ts'
import type { CheckpointPublisher } from './checkpoint-publisher.ts'
import { isClosedLog, type Losses, lossOfChain } from './losses.ts'
import { BITS_PER_LEVEL, frontierOf, readHashes } from './proofs.ts'
import { signedCheckpoint } from './signed-checkpoint.ts'
import type { SigningKeys } from './signing-keys.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

/**
 * The number of chains for which a daemon caches the tree up to the last checkpoint. The trees of other chains are
 * rebuilt.
 */
const EVIDENCE_TREES = 1_000

/**
 * Creates checkpoints. A checkpoint is a signed head of a chain. With a checkpoint, anyone can detect whether the chain
 * was later cut or rewritten.
 */
export type Checkpoints = {
  /**
   * Returns checkpoints that cover all current entries of the tenant's chains, or of one chain. Creates checkpoints
   * that are missing. Publishes all returned checkpoints. A chain that contradicts its last checkpoint is reported as
   * lost history, and gets no further checkpoint.
   */
  make(tenantId: string, chain?: string): Promise<EvidenceCheckpointRow[]>
  /** Creates the checkpoints that are due (EVIDENCE_CHECKPOINT). */
  run(): Promise<void>
  /**
   * Starts a `run`. If a run is in progress, requests one more run after it: several calls during a run cause only one
   * further run.
   */
  wake(): void
  /** Starts no new work, and waits until the work in progress has ended. */
  close(): Promise<void>
}

export type CheckpointDeps = {
  db: Db
  clock: Clock
  log: { error(details: object, message: string): void }
  keys: Pick<SigningKeys, 'currentIn' | 'published'>
  losses: Pick<Losses, 'report'>
  publisher: CheckpointPublisher
}

const ENTRIES_PER_READ = 1_000
/** The number of entries per stored node. A node is stored when a checkpoint covers all entries of the node. */
const NODE_LEAVES = 2 ** BITS_PER_LEVEL

/**
 * Thrown for a chain that contradicts its last checkpoint. A new checkpoint would make the manipulation look genuine.
 */
class DamagedChainError extends Error {
  override name = 'DamagedChainError'
  readonly kind: 'entries_missing' | 'entries_changed'

  constructor(kind: 'entries_missing' | 'entries_changed', message: string) {
    super(message)
    this.kind = kind
  }
}

/**
 * A checkpoint that this daemon created, with its signed root and the part of its tree that later entries do not
 * change.
 */
type NewCheckpoint = { checkpoint: EvidenceCheckpointRow; root: Buffer; tree: Frontier }

export function createCheckpoints({ db, clock, log, keys, losses, publisher }: CheckpointDeps): Checkpoints {
  let running: Promise<void> | undefined
  let isRequestedAgain = false
  let isClosed = false
  /** Cached trees by log id. */
  const extendedTrees = new LRUCache<string, NewCheckpoint>({ max: EVIDENCE_TREES })

  async function make(tenantId: string, only?: string): Promise<EvidenceCheckpointRow[]> {
    const made: EvidenceCheckpointRow[] = []
    for (const measured of await measureChains(db, tenantId)) {
      if (only !== undefined && measured.chain !== only) continue
      const checkpoint = await makeUnlessDamaged(measured)
      if (checkpoint) made.push(checkpoint)
    }
    return made
  }

  /** Returns undefined if the chain is damaged or closed. @throws errors of the store */
  async function makeUnlessDamaged(measured: MeasuredChain): Promise<EvidenceCheckpointRow | undefined> {
    const { tenant_id, chain } = measured
    if (await isClosedLog(db, logId(tenant_id, chain))) return undefined
    try {
      return await makeOne(measured)
    } catch (error) {
      if (!(error instanceof DamagedChainError)) throw error
      await losses.report([lossOfChain(tenant_id, chain, error.kind, `the chain ${chain}: ${error.message}`)])
      return undefined
    }
  }

  async function makeOne(measured: MeasuredChain): Promise<EvidenceCheckpointRow> {
    const { tenant_id, chain, size, checkpointed } = measured
    const id = logId(tenant_id, chain)
    const last = checkpointed > 0 ? await findCheckpoint(db, tenant_id, chain, checkpointed) : undefined
    const known = extendedTrees.get(id)
    if (known && known.checkpoint.tree_size > checkpointed) await requireStored(db, known.checkpoint)
    // A checkpoint that this daemon signed and that is unchanged needs no verification.
    const own = last && known && isSameRow(known.checkpoint, last) ? known : undefined
    const lastRoot = own ? own.root : last && rootOf(last, await keys.published())
    if (last && size === checkpointed) {
      // The checkpoint is published again, because publishing may have failed when it was created.
      await publisher.publish(last)
      return last
    }
    const { root, nodes, tree } = await growTree(db, measured, lastRoot, own?.tree)
    // Read after the entries: a key that is older than the key of an entry must not sign the checkpoint.
    const signer = await keys.currentIn(db)
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
    // If another daemon has just created the same checkpoint, returns that daemon's checkpoint.
    if (!isNew) return (await findCheckpoint(db, tenant_id, chain, size)) ?? checkpoint
    extendedTrees.set(id, { checkpoint, root, tree })
    await publisher.publish(checkpoint)
    return checkpoint
  }

  async function run(): Promise<void> {
    const hourAgo = isoTime(clock.now() - EVIDENCE_CHECKPOINT.ms)
    const inAnHour = isoTime(clock.now() + EVIDENCE_CHECKPOINT.ms)
    // Whether the store lacks a checkpoint that this daemon has signed. An older copy of the store was restored then.
    const isBehind = ({ tenant_id, chain, checkpointed }: MeasuredChain): boolean =>
      (extendedTrees.peek(logId(tenant_id, chain))?.checkpoint.tree_size ?? 0) > checkpointed
    for (const measured of await measureChains(db)) {
      const { tenant_id, chain, size, checkpointed, waiting_since } = measured
      const isDue =
        size < checkpointed ||
        isBehind(measured) ||
        size - checkpointed >= EVIDENCE_CHECKPOINT.entries ||
        // A creation time far in the future comes from a wrong clock. A chain with an entry from the future is due as
        // well. Otherwise, a checkpoint for that entry could be years away.
        (waiting_since !== null && (waiting_since <= hourAgo || waiting_since >= inAnHour))
      if (!isDue || isClosed) continue
      try {
        await makeUnlessDamaged(measured)
      } catch (error) {
        // Continue with the other chains.
        log.error({ error, tenant_id, chain }, 'a checkpoint could not be created')
      }
    }
  }

  async function runUntilIdle(): Promise<void> {
    do {
      isRequestedAgain = false
      await run()
    } while (isRequestedAgain && !isClosed)
  }

  /** Runs never overlap: a call during a run waits for this run and for one more run after it. */
  function runOnce(): Promise<void> {
    if (isClosed) return Promise.resolve()
    if (running) isRequestedAgain = true
    else {
      running = runUntilIdle().finally(() => {
        running = undefined
      })
    }
    return running ?? Promise.resolve()
  }

  return {
    make,
    run: runOnce,
    wake() {
      runOnce().catch((error) => log.error({ error }, 'checkpoints could not be created'))
    },
    async close() {
      isClosed = true
      // The caller that started the run handles its failure.
      await running?.catch(() => {})
      await publisher.close()
    },
  }
}

function isSameRow(a: EvidenceCheckpointRow, b: EvidenceCheckpointRow): boolean {
  return a.tree_size === b.tree_size && a.root === b.root && a.kid === b.kid && a.note === b.note
}

/**
 * Checks that the store still contains a checkpoint that this daemon has signed.
 * @throws DamagedChainError if an older copy of the store was restored while this daemon was running
 */
async function requireStored(db: Db, { tenant_id, chain, tree_size }: EvidenceCheckpointRow): Promise<void> {
  if (await findCheckpoint(db, tenant_id, chain, tree_size)) return
  const message = `its checkpoint of ${tree_size} entries, which this daemon has signed, is missing from the store`
  throw new DamagedChainError('entries_missing', message)
}

/** Returns the signed root. @throws DamagedChainError if the checkpoint was changed */
function rootOf(checkpoint: EvidenceCheckpointRow, keys: readonly PublishedKey[]): Buffer {
  try {
    return Buffer.from(signedCheckpoint(checkpoint, keys).root, 'base64')
  } catch (error) {
    if (!(error instanceof NoteError)) throw error
    throw new DamagedChainError(
      'entries_changed',
      `the checkpoint of ${checkpoint.tree_size} entries is invalid: ${error.message}`,
    )
  }
}

/**
 * Computes the root over all entries of a chain, starting from the tree of its last checkpoint. Returns the root, the
 * new nodes, and the tree up to the last node.
 * @param lastRoot the root of the last checkpoint. Undefined if there is no checkpoint.
 * @param known the tree of the last checkpoint up to its last node, if cached
 * @throws DamagedChainError if entries are missing, or the tree differs from the signed tree
 */
async function growTree(
  db: Db,
  { tenant_id, chain, checkpointed, size }: MeasuredChain,
  lastRoot: Buffer | undefined,
  known: Frontier | undefined,
): Promise<{ root: Buffer; nodes: Tables['evidence_nodes'][]; tree: Frontier }> {
  if (size < checkpointed)
    throw new DamagedChainError('entries_missing', `it has ${size} entries, but its checkpoint covers ${checkpointed}`)
  const tree = known?.copy() ?? (await startTree(db, tenant_id, chain, checkpointed - (checkpointed % NODE_LEAVES)))
  const compareWithLast = () => {
    if (lastRoot === undefined || tree.size !== checkpointed || tree.root().equals(lastRoot)) return
    throw new DamagedChainError('entries_changed', `its first ${checkpointed} entries do not match their checkpoint`)
  }
  compareWithLast()
  const nodes: Tables['evidence_nodes'][] = []
  const { turn: rest } = createPacer()
  while (tree.size < size) {
    const end = tree.size < checkpointed ? checkpointed : size
    const [from, to] = [tree.size, Math.min(end, tree.size + ENTRIES_PER_READ)]
    const hashes = await readHashes(db, tenant_id, chain, { from, to })
    if (hashes.length !== (to - from) * HASH_BYTES) {
      throw new DamagedChainError('entries_missing', `some of its entries ${from} to ${to - 1} are missing`)
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
    throw new DamagedChainError('entries_missing', error.message)
  }
}
