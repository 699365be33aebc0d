import { CHANGES_CHAIN, logId } from '../../../shared/evidence/entry.ts'
import type { Checkpoint } from '../../../shared/evidence/note.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { differs, tooShort } from './checkpoint-file.ts'
import { type NotesByLog, readNotes } from './checkpoint-notes.ts'
import { type FoundLoss, fileLossId, listLosses, lossOfChain } from './losses.ts'
import { rootOfChain } from './proofs.ts'
import { publishedKeys } from './signing-keys.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

export type StartCheckDeps = {
  db: Db
  clock: Clock
  /** The keys in the store, before the first key is created. */
  /** The checkpoint file, if one is configured. */
  file: string | undefined
  daemonId: string
}

/**
 * Finds the losses that must be known before this daemon signs its first entry: chains that are shorter than their
 * checkpoints in the store or in the file or have another root, missing keys, and a missing checkpoint file. This check
 * reads a few rows for each chain. The comparison of all entries follows (checkpoint-file.ts). Also remembers a file that
 * contains notes.
 * @throws errors of the store
 */
export async function checkHistory({ db, clock, file, daemonId }: StartCheckDeps): Promise<FoundLoss[]> {
  // The later comparison reports a file that cannot be read.
  const noted: NotesByLog = file === undefined ? new Map() : await readNotes(file).catch(() => UNREADABLE)
  const chains = await measureChains(db)
  const found: FoundLoss[] = []
  for (const chain of chains) {
    const loss = cutLoss(chain) ?? (await lossByNotes(db, chain, noted))
    if (loss) found.push(loss)
  }
  found.push(...(await removedChains(db, chains, { noted, daemonId })))
  const closed = new Set(found.map(({ id }) => id))
  found.push(...(await lossesOfKeys(db, chains)).filter(({ id }) => !closed.has(id)))
  if (file !== undefined && noted !== UNREADABLE) {
    if (noted.size > 0) await rememberFile(db, { file, daemonId, clock })
    const isNew = chains.length === 0 && (await publishedKeys(db)).length === 0
    found.push(...(await lossesOfFile(db, { file, daemonId, noted, isNew })))
  }
  return found
}

/** Stands for a file that could not be read. */
const UNREADABLE: NotesByLog = new Map()

/** Remembers that this daemon has written the file, so that a later start notices if the file is missing. */
export async function rememberFile(
  db: Db,
  { file, daemonId, clock }: { file: string; daemonId: string; clock: Clock },
): Promise<void> {
  await db
    .insertInto('evidence_files')
    .values({ daemon_id: daemonId, path: file, created_at: isoTime(clock.now()) })
    .onConflict((conflict) => conflict.columns(['daemon_id', 'path']).doNothing())
    .execute()
}

function cutLoss({ tenant_id, chain, size, checkpointed }: MeasuredChain): FoundLoss | undefined {
  if (size >= checkpointed) return undefined
  const detail = `the chain ${chain} has ${size} entries, but its checkpoint covers ${checkpointed}`
  return lossOfChain(tenant_id, chain, 'entries_missing', detail)
}

/**
 * Finds chains to which this daemon would append, of which the file contains notes, but the store contains nothing. The
 * successors of closed chains are included.
 */
async function removedChains(
  db: Db,
  chains: readonly MeasuredChain[],
  { noted, daemonId }: { noted: NotesByLog; daemonId: string },
): Promise<FoundLoss[]> {
  if (noted.size === 0) return []
  const stored = new Set(chains.map(({ tenant_id, chain }) => logId(tenant_id, chain)))
  const tenants = await db.selectFrom('tenants').select('id').execute()
  const successors = (await listLosses(db)).flatMap(({ successor }) => successor ?? [])
  const names = [...new Set([CHANGES_CHAIN, `requests-${daemonId}`, ...successors])]
  return tenants.flatMap(({ id: tenant_id }) =>
    names.flatMap((chain) => {
      const id = logId(tenant_id, chain)
      const last = stored.has(id) ? undefined : lastOf(noted, id)
      return last === undefined ? [] : tooShort({ tenant_id, chain, size: 0 }, last)
    }),
  )
}

async function lossByNotes(db: Db, measured: MeasuredChain, noted: NotesByLog): Promise<FoundLoss | undefined> {
  const { tenant_id, chain, size } = measured
  const last = lastOf(noted, logId(tenant_id, chain))
  if (last === undefined) return undefined
  if (last.size > size) return tooShort(measured, last)
  const stored = await findCheckpoint(db, tenant_id, chain, last.size)
  // Usually the store contains the same checkpoint. The job that makes checkpoints compares it with the entries.
  if (stored && Buffer.from(stored.root, 'hex').toString('base64') === last.root) return undefined
  const root = await rootOfChain(db, tenant_id, chain, last.size).catch((error: unknown) => {
    if (error instanceof RangeError) return undefined
    throw error
  })
  return root?.toString('base64') === last.root ? undefined : differs(measured, last)
}

/** Returns the checkpoint of a log that covers the most entries. */
const lastOf = (noted: NotesByLog, id: string): Checkpoint | undefined =>
  noted
    .get(id)
    ?.map(({ checkpoint }) => checkpoint)
    .reduce((one, other) => (other.size > one.size ? other : one))

/**
 * Finds signatures of keys that are missing from the store. If a key that signed the last entry of a chain is missing,
 * the chain is closed: a verifier that knows the old key would not accept the next entry.
 */
async function lossesOfKeys(db: Db, chains: readonly MeasuredChain[]): Promise<FoundLoss[]> {
  // Ids of commits begin with their time.
  const [oldest, newest] = [await signedCommit(db, 'asc'), await signedCommit(db, 'desc')]
  // The keys are read after the signatures: another daemon may create a key and sign with it in the meantime.
  const knownKeys = async () => new Set((await publishedKeys(db)).map(({ kid }) => kid))
  const known = await knownKeys()
  const missing = [oldest, newest].flatMap((commit) => (commit && !known.has(commit.kid) ? [commit.kid] : []))
  const lost: FoundLoss[] = [...new Set(missing)].map((kid) => ({
    id: `key:${kid}`,
    cause: 'key_missing',
    detail: `the key ${kid} has signed entries, but the store does not contain it`,
  }))
  if (newest === undefined || known.has(newest.kid)) return lost
  for (const { tenant_id, chain, size } of chains) {
    const head = await db
      .selectFrom('evidence_entries')
      .innerJoin('evidence_commits', 'evidence_commits.id', 'commit_id')
      .select(['kid', 'signature'])
      .where('tenant_id', '=', tenant_id)
      .where('chain', '=', chain)
      .where('seq', '=', size - 1)
      .executeTakeFirst()
    if (head === undefined || head.signature === '' || (await knownKeys()).has(head.kid)) continue
    const detail = `the key ${head.kid}, which signed the last entry of the chain ${chain}, is missing from the store`
    lost.push(lossOfChain(tenant_id, chain, 'key_missing', detail))
  }
  return lost
}

/** The oldest or newest commit that has a signature. Only a migration writes commits without a signature. */
const signedCommit = (db: Db, order: 'asc' | 'desc'): Promise<{ kid: string } | undefined> =>
  db
    .selectFrom('evidence_commits')
    .select('kid')
    .where('signature', '<>', '')
    .orderBy('id', order)
    .limit(1)
    .executeTakeFirst()

/** Finds out whether the file, or the store to which it belongs, was lost. */
async function lossesOfFile(
  db: Db,
  { file, daemonId, noted, isNew }: { file: string; daemonId: string; noted: NotesByLog; isNew: boolean },
): Promise<FoundLoss[]> {
  if (noted.size > 0) {
    if (!isNew) return []
    const detail = `${file} contains checkpoints of ${noted.size} logs, but the store is new and contains no log`
    return [{ id: 'store', cause: 'store_replaced', detail }]
  }
  const written = await db
    .selectFrom('evidence_files')
    .select('created_at')
    .where('daemon_id', '=', daemonId)
    .where('path', '=', file)
    .executeTakeFirst()
  if (written === undefined) return []
  const detail = `${file} contained checkpoints since ${written.created_at}, but is now missing or empty`
  return [{ id: fileLossId(daemonId, written.created_at), cause: 'file_missing', detail }]
}
