import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { FoundLoss } from './found-loss.ts'

/**
 * Remembers that this daemon has written its checkpoint file. Only then is a missing file a loss: a file that is
 * configured for the first time does not exist.
 */
export type FileMemory = {
  /** Whether the file must exist. @throws errors of the store */
  mustExist(): Promise<boolean>
  /** Call this after a note was written to the file. @throws errors of the store */
  written(): Promise<void>
  /** Call this if the file is missing or empty, although it must exist. @throws errors of the store */
  missing(): Promise<void>
  /**
   * Call this after an error. Reports a loss and returns true if the file exists, but cannot be opened or read.
   * @throws errors of the store
   */
  failed(error: unknown): Promise<boolean>
}

export type FileMemoryDeps = OwnFile & { db: Db; losses: { report(found: readonly FoundLoss[]): Promise<void> } }

export function createFileMemory({ db, clock, file, daemonId, losses }: FileMemoryDeps): FileMemory {
  return {
    mustExist: async () => (await findFile(db, file, daemonId)) !== undefined,
    written: () => rememberFile(db, { file, daemonId, clock }),
    async missing() {
      await losses.report(await lossesOfMissingFile(db, file, daemonId))
    },
    async failed(error) {
      await losses.report(await lossesOfUnreadableFile(db, error, { file, daemonId, clock }))
      return isUnreadable(error)
    },
  }
}

/** Remembers that this daemon has written the file. */
export async function rememberFile(db: Db, { file, daemonId, clock }: OwnFile): Promise<void> {
  await db
    .insertInto('evidence_files')
    .values({ daemon_id: daemonId, path: file, created_at: isoTime(clock.now()) })
    .onConflict((conflict) => conflict.columns(['daemon_id', 'path']).doNothing())
    .execute()
}

type OwnFile = { file: string; daemonId: string; clock: Clock }

/** Returns the loss of a file that is missing or empty. Returns no loss if this daemon has not written it. */
export async function lossesOfMissingFile(db: Db, file: string, daemonId: string): Promise<FoundLoss[]> {
  const written = await findFile(db, file, daemonId)
  if (written === undefined) return []
  const detail = `${file} contained checkpoints since ${written.created_at}, but is now missing or empty`
  // The next file is a new file, so its loss gets a new id.
  return [{ id: `file:${daemonId}:${written.created_at}`, cause: 'file_missing', detail }]
}

/**
 * Returns the loss of a file that exists, but cannot be opened or read. The loss is stored once until it is
 * acknowledged. If the file stays unreadable after that, it is a new loss.
 */
export async function lossesOfUnreadableFile(
  db: Db,
  error: unknown,
  { file, daemonId, clock }: OwnFile,
): Promise<FoundLoss[]> {
  if (!isUnreadable(error)) return []
  const open = await db
    .selectFrom('evidence_losses')
    .select('id')
    .where('cause', '=', 'file_unreadable')
    .where('id', 'like', `unreadable:${daemonId}:%`)
    .where('acknowledged_at', 'is', null)
    .executeTakeFirst()
  if (open) return []
  const detail = `${file} cannot be read (${error.code}), so its checkpoints were not compared with the store`
  return [{ id: `unreadable:${daemonId}:${isoTime(clock.now())}`, cause: 'file_unreadable', detail }]
}

const isUnreadable = (error: unknown): error is Error & { code: string } =>
  error instanceof Error && 'code' in error && UNREADABLE.has(error.code)
/** Other errors, such as too many open files, pass by themselves. */
const UNREADABLE: ReadonlySet<unknown> = new Set(['EACCES', 'EPERM', 'EISDIR', 'ENOTDIR', 'ELOOP', 'EIO'])

/** Call this when the loss with this id is acknowledged. After the loss of a file, the next file is a new file. */
export async function forgetFile(tx: Db, lossId: string): Promise<void> {
  const [, daemonId, createdAt] = FILE_LOSS.exec(lossId) ?? []
  if (daemonId === undefined || createdAt === undefined) return
  await tx.deleteFrom('evidence_files').where('daemon_id', '=', daemonId).where('created_at', '=', createdAt).execute()
}
const FILE_LOSS = /^file:([0-9a-f]{12}):(.+)$/

const findFile = (db: Db, file: string, daemonId: string): Promise<{ created_at: string } | undefined> =>
  db
    .selectFrom('evidence_files')
    .select('created_at')
    .where('daemon_id', '=', daemonId)
    .where('path', '=', file)
    .executeTakeFirst()
