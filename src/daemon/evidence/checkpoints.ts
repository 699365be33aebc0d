import { leafHash } from '../../shared/evidence/merkle.ts'
import { chainOrigin, checkpointText, signedNote } from '../../shared/evidence/note.ts'
import { EVIDENCE_CHECKPOINT } from '../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../shared/time.ts'
import type { Db } from '../db/database.ts'
import { insertRows } from '../db/insert-rows.ts'
import type { EvidenceCheckpointRow, Tables } from '../db/tables.ts'
import { BITS_PER_LEVEL, frontierOf, readHashes } from './proofs.ts'
import type { SecondPlaces } from './second-places.ts'
import type { SigningKeys } from './signing-keys.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

/** Signed heads of the chains, so that whoever has one can tell whether a chain was cut or written anew since. */
export type Checkpoints = {
  /** Of each chain of the tenant, or of one, the checkpoint over all it has now: made where there is none yet. */
  make(tenantId: string, chain?: string): Promise<EvidenceCheckpointRow[]>
  /** Makes those that are due: EVIDENCE_CHECKPOINT. */
  run(): Promise<void>
  /** The same soon, once for all who ask meanwhile. */
  wake(): void
  /** Waits for what is under way; nothing is started any more. */
  close(): Promise<void>
}

export type CheckpointDeps = {
  db: Db
  clock: Clock
  log: { error(details: object, message: string): void }
  keys: Pick<SigningKeys, 'current'>
  places: SecondPlaces
}

const ENTRIES_PER_READ = 1_000
/** What stands before this many entries is in nodes when a checkpoint was made after them. */
const NODE_LEAVES = 2 ** BITS_PER_LEVEL

export function createCheckpoints({ db, clock, log, keys, places }: CheckpointDeps): Checkpoints {
  let running: Promise<void> | undefined
  let isAskedAgain = false
  let isClosed = false

  async function make(tenantId: string, only?: string): Promise<EvidenceCheckpointRow[]> {
    const made: EvidenceCheckpointRow[] = []
    for (const measured of await measureChains(db, tenantId)) {
      const { chain, size, checkpointed } = measured
      if (only !== undefined && chain !== only) continue
      const known = size === checkpointed ? await findCheckpoint(db, tenantId, chain, size) : undefined
      made.push(known ?? (await makeOne(measured)))
    }
    return made
  }

  async function makeOne({ tenant_id, chain, size, checkpointed }: MeasuredChain): Promise<EvidenceCheckpointRow> {
    const { root, nodes } = await growTree(db, { tenant_id, chain }, checkpointed, size)
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
    await places.publish(checkpoint)
    return checkpoint
  }

  async function run(): Promise<void> {
    const waitingTooLong = isoTime(clock.now() - EVIDENCE_CHECKPOINT.ms)
    for (const measured of await measureChains(db)) {
      const { size, checkpointed, waiting_since } = measured
      const isDue =
        size - checkpointed >= EVIDENCE_CHECKPOINT.entries ||
        (waiting_since !== null && waiting_since <= waitingTooLong)
      if (isDue && !isClosed) await makeOne(measured)
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
    async close() {
      isClosed = true
      // Whoever asked for it hears of its failure.
      await running?.catch(() => {})
      await places.close()
    },
  }
}

/** The root over the first `size` entries of a chain, and the nodes that came since the checkpoint of `from` entries. */
async function growTree(
  db: Db,
  { tenant_id, chain }: { tenant_id: string; chain: string },
  from: number,
  size: number,
): Promise<{ root: Buffer; nodes: Tables['evidence_nodes'][] }> {
  const tree = await frontierOf(db, tenant_id, chain, from - (from % NODE_LEAVES))
  const nodes: Tables['evidence_nodes'][] = []
  while (tree.size < size) {
    const to = Math.min(size, tree.size + ENTRIES_PER_READ)
    const hashes = await readHashes(db, tenant_id, chain, { from: tree.size, to })
    if (hashes.length === 0) throw new Error(`the chain ${chain} lacks its entry ${tree.size}`)
    for (const entry_hash of hashes) {
      tree.append(leafHash(entry_hash), (bits, node_index, root) => {
        if (bits % BITS_PER_LEVEL !== 0) return
        nodes.push({ tenant_id, chain, level: bits / BITS_PER_LEVEL, node_index, hash: root.toString('hex') })
      })
    }
  }
  return { root: tree.root(), nodes }
}
