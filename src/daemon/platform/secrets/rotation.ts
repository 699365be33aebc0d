import { sql } from 'kysely'
import { GatewayError } from '../../../shared/errors.ts'
import { type Clock, isoTime, type Timer } from '../../../shared/time.ts'
import type { Db } from '../db/db.ts'
import { engineOf } from '../db/engine.ts'
import { readLeaseTime } from '../db/lease-time.ts'
import type { MasterKeyRotationRow } from '../db/tables.ts'
import type { Log } from '../log.ts'
import { CHECK, CHECK_TEXT, followCheckText, keepNextKey, nextKeyOf, replaceKeyFile } from './master-key.ts'
import { resealAll } from './reseal.ts'
import { findRotation, HASH_KEYS_COLUMN, keepHashKeys, keyLocation, ROTATION, takeKeysOf } from './rotation-row.ts'
import { createMasterKey, type MasterKey, outdatedKey, sealSecret } from './seal.ts'
import type { SealedColumn } from './sealed-column.ts'
import { countUnopened } from './unopened.ts'

/** How often a daemon on a shared store looks for a rotation. */
export const ROTATION_LOOK_MS = 2_000
/**
 * How long each phase lasts on a shared store, so that every daemon has seen it. On every store, the second phase lasts
 * this long: a text that was encrypted with the earlier key just before it may still wait for its transaction.
 */
export const ROTATION_PHASE_MS = 60_000

/** The id of the sealing key, since when it seals, and the running rotation. */
export type MasterKeyStatus = { id: string; since: string; rotation: MasterKeyRotationRow | undefined }

/** What a probe shows: whether this daemon has the key of the store, and how many texts it cannot decrypt. */
export type SecretsHealth = { isCurrent: boolean; unopened: number }

export type MasterKeyRotation = {
  health(): SecretsHealth
  status(): Promise<MasterKeyStatus>
  /**
   * Begins a rotation, or returns the running one. Call `wake` after the commit.
   * @throws NEXT_MASTER_KEY_MISSING if the key is configured, and no other key is. MASTER_KEY_OUTDATED
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
// accept -> reseal: at once on SQLite, ROTATION_PHASE_MS later on a shared store. Every daemon encrypts with the new key.
//   Some daemon encrypts all earlier texts again.
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
  /** The key that `master.key.next` contains. */
  let kept: string | undefined
  /** Whether a pass of the second phase has found no earlier text. */
  let isClean = false
  let unopened = 0

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
        if (isShared || seen !== undefined) schedule()
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
      if (isShared) await follow(db)
      return false
    }
    masterKey.isOutdated = false
    // The end of the rotation needs `seen`, even if the file cannot be written now.
    if (seen !== row.new_id) isClean = false
    seen = row.new_id
    if (configured === undefined && kept !== seen) {
      await keepNextKey(dataDir, masterKey.exportHex(seen))
      kept = seen
    }
    const now = await readLeaseTime(db, clock.now())
    const isSettled = now - Date.parse(row.phase_at) >= ROTATION_PHASE_MS
    if (row.phase === 'accept') {
      if (isShared && !isSettled) return false
      await beginReseal(now)
      return true
    }
    if (isClean && !isSettled) return false
    const replaced = await resealAll(db, masterKey, columns, { log, isStopped: () => isClosed })
    isClean = replaced === 0
    if (replaced === undefined || (isClean && !isSettled)) return false
    if (isClean) await finish(now)
    return true
  }

  /** A rotation may have ended while this daemon was away. Without the new key, it must not encrypt anything. */
  async function follow(from: Db): Promise<void> {
    const before = masterKey.id
    const isKnown = await followCheckText(from, masterKey, options)
    if (!isKnown && !masterKey.isOutdated) log.error({ key: masterKey.id }, outdatedKey().message)
    masterKey.isOutdated = !isKnown
    if (masterKey.id !== before) await end(masterKey.id)
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

  async function countTexts(): Promise<void> {
    const counted = await countUnopened(db, masterKey, columns, { isStopped: () => isClosed })
    for (const { count } of counted) unopened += count
    if (unopened > 0)
      log.error(
        { unopened, texts: counted },
        'secrets of the store cannot be opened with this master key; restore the key that sealed them, or create them again',
      )
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
  const counting = (running ?? Promise.resolve())
    .then(countTexts)
    .catch((error: unknown) => log.error({ error }, 'the secrets of the store could not be checked'))
  return {
    health: () => ({ isCurrent: !masterKey.isOutdated, unopened }),
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
      // With an earlier key, no other daemon could read the row of the rotation, so the rotation would never end.
      await follow(tx)
      if (masterKey.isOutdated) throw outdatedKey()
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
      await counting
    },
  }
}
