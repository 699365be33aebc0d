import { sql } from 'kysely'
import { GatewayError } from '../../../shared/errors.ts'
import { type Clock, isoTime, type Timer } from '../../../shared/time.ts'
import type { Db } from '../db/db.ts'
import { engineOf } from '../db/engine.ts'
import { readLeaseTime } from '../db/lease-time.ts'
import type { MasterKeyRotationRow } from '../db/tables.ts'
import type { Log } from '../log.ts'
import { CHECK, CHECK_TEXT, keepNextKey, nextKeyOf, replaceKeyFile } from './master-key.ts'
import { resealAll } from './reseal.ts'
import { findRotation, HASH_KEYS_COLUMN, keepHashKeys, keyLocation, ROTATION, takeKeysOf } from './rotation-row.ts'
import { createMasterKey, type MasterKey, sealSecret } from './seal.ts'
import type { SealedColumn } from './sealed-column.ts'

/** How often a daemon on a shared store looks for a rotation. */
export const ROTATION_LOOK_MS = 2_000
/**
 * How long each phase lasts on a shared store, so that every daemon has seen it. Longer than a transaction that encrypts
 * a text and then waits for a lock.
 */
export const ROTATION_PHASE_MS = 60_000

/** The id of the sealing key, since when it seals, and the running rotation. */
export type MasterKeyStatus = { id: string; since: string; rotation: MasterKeyRotationRow | undefined }

export type MasterKeyRotation = {
  status(): Promise<MasterKeyStatus>
  /**
   * Begins a rotation, or returns the running one. Call `wake` after the commit.
   * @throws NEXT_MASTER_KEY_MISSING if the key is configured, and no other key is
   */
  begin(tx: Db): Promise<MasterKeyRotationRow>
  /** Continues a rotation. */
  wake(): void
  close(): Promise<void>
}

export type RotationOptions = {
  masterKey: MasterKey
  columns: readonly SealedColumn[]
  configured: string | undefined
  next: string | undefined
  dataDir: string
  clock: Clock
  log: Log
}

// none -> accept: an operator begins the rotation. Every daemon learns both keys from the row and accepts them.
// accept -> reseal: ROTATION_PHASE_MS later on a shared store. Every daemon encrypts with the new key. Some daemon
//   encrypts all earlier texts again.
// reseal -> none: ROTATION_PHASE_MS later, and after a pass that found no earlier text. The check text is encrypted with
//   the new key, so daemons that only know the earlier key do not start any more.
// Each move is one transaction, so a rotation continues after a kill, on any daemon of the store.
export function createRotation(db: Db, options: RotationOptions): MasterKeyRotation {
  const { masterKey, configured, next, dataDir, clock, log } = options
  const columns = [...options.columns, HASH_KEYS_COLUMN]
  const isShared = engineOf(db).name === 'postgres'
  let timer: Timer | undefined
  let running: Promise<void> | undefined
  let isClosed = false
  /** The key to which this daemon has seen a rotation. */
  let seen: string | undefined

  function schedule(): void {
    if (!isClosed) timer ??= clock.after(ROTATION_LOOK_MS, run)
  }

  function run(): void {
    timer?.cancel()
    timer = undefined
    running ??= work()
      .catch((error: unknown) => {
        log.error({ error }, 'the rotation of the master key is interrupted; it is continued')
        schedule()
      })
      .finally(() => {
        running = undefined
        // On SQLite, no other daemon can begin a rotation.
        if (isShared) schedule()
      })
  }

  async function work(): Promise<void> {
    while (!isClosed && (await step()));
  }

  /** Makes one move. Returns whether the next move may follow at once. */
  async function step(): Promise<boolean> {
    const row = await takeKeysOf(db, masterKey)
    if (row === undefined) {
      if (seen !== undefined) await end(seen)
      return false
    }
    if (seen !== row.new_id && configured === undefined) await keepNextKey(dataDir, masterKey.exportHex(row.new_id))
    seen = row.new_id
    const now = await readLeaseTime(db, clock.now())
    const isSettled = !isShared || now - Date.parse(row.phase_at) >= ROTATION_PHASE_MS
    if (row.phase === 'accept') {
      if (isSettled) await beginReseal(now)
      return isSettled
    }
    const replaced = await resealAll(db, masterKey, columns, { log, isStopped: () => isClosed })
    if (replaced === undefined || (replaced === 0 && !isSettled)) return false
    if (replaced === 0) await finish(now)
    return true
  }

  const beginReseal = (now: number) =>
    db
      .updateTable('master_key_rotation')
      .set({ phase: 'reseal', phase_at: isoTime(now) })
      .where('id', '=', ROTATION)
      .where('phase', '=', 'accept')
      .execute()

  async function finish(now: number): Promise<void> {
    await db.transaction().execute(async (tx) => {
      const { numDeletedRows } = await tx
        .deleteFrom('master_key_rotation')
        .where('id', '=', ROTATION)
        .where('new_id', '=', masterKey.id)
        .executeTakeFirstOrThrow()
      if (numDeletedRows === 0n) return
      const sealed = sealSecret(masterKey, CHECK, CHECK_TEXT)
      await tx
        .updateTable('master_key_check')
        .set({ sealed, created_at: isoTime(now) })
        .where('id', '=', CHECK.row)
        .execute()
    })
  }

  /** The earlier key stays accepted until this daemon stops, because texts that were read before are still in memory. */
  async function end(id: string): Promise<void> {
    masterKey.sealWith(id)
    if (configured === undefined) await replaceKeyFile(dataDir, masterKey)
    log.info({ key: id }, 'the master key was rotated')
    seen = undefined
  }

  async function newKey(): Promise<string> {
    if (next !== undefined) return next
    if (configured === undefined) return nextKeyOf(dataDir, log)
    throw new GatewayError(
      'NEXT_MASTER_KEY_MISSING',
      'The master key is configured, but next_master_key is not. Set it in the configuration of a daemon, and restart that daemon.',
    )
  }

  run()
  return {
    async status() {
      const { created_at } = await db
        .selectFrom('master_key_check')
        .select('created_at')
        .where('id', '=', CHECK.row)
        .executeTakeFirstOrThrow()
      return { id: masterKey.id, since: created_at, rotation: await findRotation(db) }
    },
    async begin(tx) {
      if (isShared) await sql`lock table master_key_check in exclusive mode`.execute(tx)
      const current = await findRotation(tx)
      if (current !== undefined) return current
      const newHex = await newKey()
      const newSide = createMasterKey(newHex)
      if (newSide.id === masterKey.id)
        throw new GatewayError('NEXT_MASTER_KEY_MISSING', 'next_master_key is the current master key. Set another key.')
      const now = isoTime(await readLeaseTime(tx, clock.now()))
      await keepHashKeys(tx, masterKey, now)
      const oldHex = masterKey.exportHex(masterKey.id)
      const row: MasterKeyRotationRow = {
        id: ROTATION,
        phase: 'accept',
        old_id: masterKey.id,
        new_id: newSide.id,
        new_under_old: sealSecret(masterKey, keyLocation('new'), newHex),
        old_under_new: sealSecret(newSide, keyLocation('old'), oldHex),
        started_at: now,
        phase_at: now,
      }
      await tx.insertInto('master_key_rotation').values(row).execute()
      return row
    },
    wake: () => void (running === undefined ? run() : running.then(run)),
    async close() {
      isClosed = true
      timer?.cancel()
      await running
    },
  }
}
