import type { Dispatcher } from 'undici'
import { cosignatureLine, cosignedAtMs, isOfKey, type WitnessKey } from '../../../shared/evidence/cosignature.ts'
import { logId } from '../../../shared/evidence/entry.ts'
import { isWithin, KEY_WINDOW_SLACK_MS, type KeyWindow } from '../../../shared/evidence/keys.ts'
import { NoteError, parseCheckpoint, parseSignatures, signedNote } from '../../../shared/evidence/note.ts'
import { parseWitnessKey, toVerifierKey } from '../../../shared/evidence/verifier-key.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import { lastCosigned, storeCosignature } from './cosignatures.ts'
import { closedLogs, type Losses } from './losses.ts'
import { proveConsistency } from './proofs.ts'
import { signedCheckpoint } from './signed-checkpoint.ts'
import type { SigningKeys } from './signing-keys.ts'
import { findCheckpoint, measureChains } from './store.ts'
import { addCheckpoint, type WitnessAnswer } from './witness-call.ts'
import type { WitnessMetrics } from './witness-metrics.ts'

/** A witness that cosigns checkpoints (C2SP tlog-witness). */
export type WitnessConfig = {
  /** Its name in logs and metrics. */
  name: string
  /** Its submission prefix. */
  url: string
  /** Its verifier key, as text: a configuration is frozen, and bytes cannot be. */
  key: string
  /** The times at which the key may cosign. */
  window: KeyWindow
}

/** Requests cosignatures of checkpoints, outside of the requests that create entries. */
export type Witnesses = {
  /** Requests cosignatures of a checkpoint soon. Replaces a smaller checkpoint of the same chain that is waiting. */
  offer(checkpoint: Pick<EvidenceCheckpointRow, 'tenant_id' | 'chain' | 'tree_size'>): void
  /** Retries what is due. The first run also finds checkpoints that were waiting when the daemon stopped. */
  run(): Promise<void>
  /** Aborts the requests in progress. */
  close(): Promise<void>
}

export type WitnessDeps = {
  db: Db
  clock: Clock
  log: Pick<Log, 'info' | 'error'>
  keys: Pick<SigningKeys, 'current' | 'published'>
  losses: Pick<Losses, 'report'>
  witnesses: readonly WitnessConfig[]
  metrics: WitnessMetrics
  /** Opens the connections. */
  dispatcher?: Dispatcher
  /** Rejects if the address of a witness may not be called. */
  checkTarget?(url: string): Promise<void>
}

/** The maximum number of chains that wait for one witness. Further chains are read from the store later. */
const CHAINS_WAITING = 1_000
/** The maximum number of requests per checkpoint. Another daemon may get a larger checkpoint cosigned in between. */
const CALLS_PER_CHECKPOINT = 3
/** The delay before a retry: doubled with each failure. */
const RETRY = { firstMs: 30_000, maxMs: 3_600_000 } as const

type Waiting = { tenantId: string; chain: string; size: number; failures: number; notBeforeMs: number }
/**
 * The end of an attempt. `superseded`: the witness has cosigned this checkpoint or a larger one already, so nothing was
 * cosigned and nothing failed. `down`: the witness did not respond, so further requests would also fail.
 */
type Outcome = 'cosigned' | 'superseded' | 'refused' | 'contradicted' | 'failed' | 'down'

export function createWitnesses(deps: WitnessDeps): Witnesses {
  const workers = deps.witnesses.map((witness) => createWorker(witness, deps))
  return {
    offer({ tenant_id, chain, tree_size }) {
      for (const worker of workers) worker.offer(tenant_id, chain, tree_size)
    },
    async run() {
      await Promise.all(workers.map((worker) => worker.run()))
    },
    async close() {
      await Promise.all(workers.map((worker) => worker.close()))
    },
  }
}

/** Sends the checkpoints of all chains to one witness, one after the other. */
function createWorker(config: WitnessConfig, deps: WitnessDeps) {
  const { db, clock, log, keys, losses, metrics, dispatcher } = deps
  const { name, url } = config
  const key: WitnessKey = { ...parseWitnessKey(config.key), window: config.window }
  const witness = `${key.name}+${key.keyHash.toString('hex')}`
  /** By log id. */
  const waiting = new Map<string, Waiting>()
  const stop = new AbortController()
  let isSeeded = false
  let working: Promise<void> | undefined
  let hasNew = false

  function add(tenantId: string, chain: string, size: number): void {
    const id = logId(tenantId, chain)
    const known = waiting.get(id)
    if (known) {
      known.size = Math.max(known.size, size)
      return
    }
    if (waiting.size >= CHAINS_WAITING) isSeeded = false
    else waiting.set(id, { tenantId, chain, size, failures: 0, notBeforeMs: 0 })
    metrics.waiting(name, waiting.size)
  }

  /** Finds the chains whose last checkpoint the witness has not cosigned. */
  async function seed(): Promise<void> {
    const chains = await measureChains(db)
    isSeeded = true
    for (const { tenant_id, chain, checkpointed } of chains) {
      if (checkpointed === 0 || stop.signal.aborted) continue
      if ((await lastCosigned(db, tenant_id, chain, witness)) < checkpointed) add(tenant_id, chain, checkpointed)
    }
  }

  /**
   * Removes closed logs, because the store cannot prove their checkpoints anymore. The daemon reports their losses
   * itself (losses.ts).
   */
  async function removeClosed(): Promise<void> {
    if (waiting.size === 0) return
    for (const id of await closedLogs(db)) {
      waiting.delete(id)
    }
    metrics.waiting(name, waiting.size)
  }

  async function work(): Promise<void> {
    do {
      hasNew = false
      await removeClosed()
      for (const [id, item] of [...waiting]) {
        if (stop.signal.aborted) return
        if (item.notBeforeMs > clock.now()) continue
        const { size } = item
        const outcome = await attempt(item)
        if (stop.signal.aborted) return
        if (outcome !== 'superseded') metrics.ended(name, outcome === 'down' ? 'failed' : outcome)
        if (outcome === 'cosigned' || outcome === 'superseded') {
          if (item.size === size) waiting.delete(id)
          else {
            Object.assign(item, { failures: 0, notBeforeMs: 0 })
            hasNew = true
          }
        } else {
          item.failures += 1
          item.notBeforeMs = clock.now() + Math.min(RETRY.maxMs, RETRY.firstMs * 2 ** (item.failures - 1))
        }
        metrics.waiting(name, waiting.size)
        // Each further request would take as long as the timeout. The others wait for the next run.
        if (outcome === 'down') return
      }
    } while (hasNew && !stop.signal.aborted)
  }

  function start(): Promise<void> {
    working ??= work()
      .catch((error) => log.error({ error, witness: name }, 'checkpoints could not be cosigned; they are retried'))
      .finally(() => {
        working = undefined
      })
    return working
  }

  /** Never throws: failures are logged. */
  async function attempt({ tenantId, chain, size }: Waiting): Promise<Outcome> {
    const facts = { witness: name, tenant_id: tenantId, chain, size }
    try {
      return await cosign(tenantId, chain, size, facts)
    } catch (error) {
      if (stop.signal.aborted) return 'failed'
      // A RangeError means that entries are missing, and a NoteError that the stored checkpoint or the cosignature is
      // invalid. In both cases, the witness responds.
      const isOurs = error instanceof RangeError || error instanceof NoteError
      log.error({ error, ...facts }, 'a checkpoint could not be cosigned; it is retried')
      return isOurs ? 'failed' : 'down'
    }
  }

  async function cosign(tenantId: string, chain: string, size: number, facts: object): Promise<Outcome> {
    let oldSize = await lastCosigned(db, tenantId, chain, witness)
    const row = await findCheckpoint(db, tenantId, chain, size)
    if (row === undefined || oldSize >= size) return 'superseded'
    await deps.checkTarget?.(url)
    const { note, text, logLine } = await noteOf(row)
    for (let calls = 0; calls < CALLS_PER_CHECKPOINT; calls += 1) {
      const path = await proveConsistency(db, tenantId, chain, oldSize, size)
      const answer = await addCheckpoint({ url, oldSize, path, note, signal: stop.signal, clock, dispatcher })
      if (answer.kind === 'cosigned') {
        const { line, atMs } = readCosignature(answer.lines, text)
        const scope = { tenant_id: tenantId, chain, witness, tree_size: size }
        await storeCosignature(db, { ...scope, log_line: logLine, line, cosigned_at: isoTime(atMs) })
        log.info(facts, 'a witness cosigned a checkpoint')
        return 'cosigned'
      }
      const larger = answer.kind === 'other-size' && answer.size > size
      if (answer.kind !== 'other-size' || larger) return await refusal(answer, tenantId, chain, facts)
      // The witness may have cosigned a checkpoint without our having received the response.
      oldSize = answer.size
    }
    throw new NoteError('the witness reports another size with each response')
  }

  /** Logs why the witness did not cosign. */
  async function refusal(answer: WitnessAnswer, tenantId: string, chain: string, facts: object): Promise<Outcome> {
    if (answer.kind === 'refused') {
      const signer = await keys.current()
      const help = { status: answer.status, log_key: toVerifierKey(signer.name, signer.publicKey) }
      log.error({ ...facts, ...help }, 'a witness refuses a log: register the origin and the key of the log there')
      return 'refused'
    }
    if (answer.kind === 'other-size') {
      const measured = (await measureChains(db, tenantId)).find((one) => one.chain === chain)
      // Another daemon may have created a larger checkpoint, which the witness has already cosigned. The larger
      // checkpoint is sent too, because only its root shows whether the witness has cosigned this log or a fork of it.
      if (measured && measured.checkpointed >= answer.size) {
        add(tenantId, chain, measured.checkpointed)
        return 'superseded'
      }
    }
    log.error({ ...facts, answer }, 'a witness has cosigned a checkpoint that contradicts the store')
    const detail = `the witness ${name} has cosigned a checkpoint of the chain ${chain} that contradicts the store`
    await losses.report([
      { id: logId(tenantId, chain), cause: 'witness_contradicts', detail, doubts: { tenantId, chain } },
    ])
    return 'contradicted'
  }

  /**
   * Returns the note to send. A checkpoint of a retired key is signed again with the current key: the time of the
   * cosignature must be in the window of a key of the log.
   * @throws NoteError if the stored checkpoint is invalid
   */
  async function noteOf(row: EvidenceCheckpointRow): Promise<{ note: string; text: string; logLine: string }> {
    signedCheckpoint(row, await keys.published())
    const { text } = parseCheckpoint(row.note)
    const signer = await keys.current()
    const isCurrent = row.kid === signer.kid
    const note = isCurrent ? row.note : signedNote(text, signer.name, signer.publicKey, signer.sign(text))
    return { note, text, logLine: note.slice(text.length + 1) }
  }

  /** Returns the cosignature of the witness's key, of all lines of a response. @throws NoteError */
  function readCosignature(lines: string, text: string): { line: string; atMs: number } {
    const found = parseSignatures(lines).find((signature) => isOfKey(signature, key))
    if (found === undefined) throw new NoteError('the response has no cosignature of the configured key')
    const atMs = cosignedAtMs(found, text, key)
    if (atMs === undefined) throw new NoteError('the cosignature is wrong')
    if (!isWithin(atMs, key.window)) throw new NoteError('the cosignature is outside of the validity of its key')
    if (atMs > clock.now() + KEY_WINDOW_SLACK_MS) throw new NoteError('the cosignature has a time in the future')
    return { line: cosignatureLine(key, atMs / 1000, found.signature.subarray(8)), atMs }
  }

  return {
    offer(tenantId: string, chain: string, size: number): void {
      if (stop.signal.aborted) return
      add(tenantId, chain, size)
      hasNew = true
      void start()
    },
    async run(): Promise<void> {
      if (!isSeeded) await seed()
      await start()
    },
    async close(): Promise<void> {
      stop.abort()
      await working?.catch(() => {})
    },
  }
}
