import { CHANGES_CHAIN, logId } from '../../../shared/evidence/entry.ts'
import type { Checkpoint } from '../../../shared/evidence/note.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { differs, tooShort } from './checkpoint-file.ts'
import { type NotesByLog, readNotes } from './checkpoint-notes.ts'
import { lossesOfMissingFile, lossesOfUnreadableFile, rememberFile } from './file-losses.ts'
import type { FoundLoss } from './found-loss.ts'
import { changesChainOf, followSuccessors, listLosses, lossOfChain, successorsOf } from './losses.ts'
import { rootOfChain } from './proofs.ts'
import { hasKeys, isUnsigned, publishedKeys } from './signing-keys.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

export type StartCheckDeps = {
  db: Db
  clock: Clock
  /** The checkpoint file, if one is configured. */
  file: string | undefined
  daemonId: string
}

/**
 * Finds the losses that must be known before this daemon signs its first entry: chains that are shorter than their
 * checkpoints in the store or in the file or have another root, missing keys and commits, and a checkpoint file that is
 * missing or cannot be read. This check reads a few rows for each chain. The comparison of all entries follows (checkpoint-file.ts). Also remembers a file that
 * contains notes.
 * @throws errors of the store
 */
export async function checkHistory({ db, clock, file, daemonId }: StartCheckDeps): Promise<FoundLoss[]> {
  const found: FoundLoss[] = []
  let noted: NotesByLog = new Map()
  let isRead = false
  if (file !== undefined) {
    try {
      noted = await readNotes(file)
      isRead = true
    } catch (error) {
      // The later comparison logs the error.
      found.push(...(await lossesOfUnreadableFile(db, error, { file, daemonId, clock })))
    }
  }
  const chains = await measureChains(db)
  for (const chain of chains) {
    const loss = cutLoss(chain) ?? (await lossByNotes(db, chain, noted))
    if (loss) found.push(loss)
  }
  found.push(...(await removedChains(db, chains, { noted, daemonId })))
  const closed = new Set(found.map(({ id }) => id))
  const lostKeys = [
    ...(await lossesOfSignatures(db, chains)),
    ...(await lossesOfAllKeys(db, chains, { daemonId, clock })),
  ]
  found.push(...lostKeys.filter(({ id }) => !closed.has(id)))
  if (file !== undefined && isRead) {
    if (noted.size > 0) await rememberFile(db, { file, daemonId, clock })
    const isNew = chains.length === 0 && !(await hasKeys(db))
    found.push(...(await lossesOfFile(db, { file, daemonId, noted, isNew })))
  }
  return found
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
 * Finds signatures of keys that are missing from the store, and chains whose last entry has lost its signature. If the
 * key or the commit of the last entry is missing, the chain is closed: a verifier that knows the old key would not accept
 * the next entry.
 */
async function lossesOfSignatures(db: Db, chains: readonly MeasuredChain[]): Promise<FoundLoss[]> {
  // Ids of commits begin with their time.
  const ends = [await signedCommit(db, 'asc'), await signedCommit(db, 'desc')]
  const heads: { measured: MeasuredChain; kid: string | null; signature: string | null }[] = []
  for (const measured of chains) {
    const { tenant_id, chain, size } = measured
    const head = await db
      .selectFrom('evidence_entries')
      .leftJoin('evidence_commits', 'evidence_commits.id', 'commit_id')
      .select(['kid', 'signature'])
      .where('tenant_id', '=', tenant_id)
      .where('chain', '=', chain)
      .where('seq', '=', size - 1)
      .executeTakeFirst()
    if (head) heads.push({ measured, ...head })
  }
  // The keys are read after the signatures: another daemon may create a key and sign with it in the meantime.
  const known = new Set((await publishedKeys(db)).map(({ kid }) => kid))
  const missing = ends.flatMap((commit) => (commit && !known.has(commit.kid) ? [commit.kid] : []))
  const lost: FoundLoss[] = [...new Set(missing)].map((kid) => ({
    id: `key:${kid}`,
    cause: 'key_missing',
    detail: `the key ${kid} has signed entries, but the store does not contain it`,
  }))
  for (const { measured, kid, signature } of heads) {
    const { tenant_id, chain } = measured
    if (kid === null) {
      const detail = `the commit of the last entry of the chain ${chain} is missing from the store`
      lost.push(lossOfChain(tenant_id, chain, 'commit_missing', detail))
    } else if (signature !== '' && !known.has(kid)) {
      const detail = `the key ${kid}, which signed the last entry of the chain ${chain}, is missing from the store`
      lost.push(lossOfChain(tenant_id, chain, 'key_missing', detail))
    }
  }
  return lost
}

/**
 * Finds out whether all keys were deleted. A new store gets its first key before its first tenant. All chains that this
 * daemon would continue are closed, also if their entries and checkpoints were deleted too.
 */
async function lossesOfAllKeys(
  db: Db,
  chains: readonly MeasuredChain[],
  { daemonId, clock }: { daemonId: string; clock: Clock },
): Promise<FoundLoss[]> {
  // The order matters: another daemon may start now. It creates the first key before the first tenant, and before it
  // removes the mark of an unsigned store.
  const tenants = await db.selectFrom('tenants').select('id').execute()
  if (tenants.length === 0 || (await isUnsigned(db)) || (await hasKeys(db))) return []
  const detail = `the store contains ${tenants.length} tenants, but no signing key`
  // Keys can be deleted again after an acknowledgement, so each loss gets a new id.
  const lost: FoundLoss[] = [{ id: `keys:${isoTime(clock.now())}`, cause: 'key_missing', detail }]
  const requests = followSuccessors(`requests-${daemonId}`, successorsOf(await listLosses(db)))
  // The summaries of the log name the chains of other daemons.
  const summaries = await db.selectFrom('log_positions').select(['tenant_id', 'chain']).execute()
  for (const { id } of tenants) {
    const known = [...chains, ...summaries].filter(({ tenant_id }) => tenant_id === id)
    for (const chain of new Set([await changesChainOf(db, id), requests, ...known.map((one) => one.chain)])) {
      lost.push(
        lossOfChain(id, chain, 'key_missing', `the key that signed the chain ${chain} is missing from the store`),
      )
    }
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
  return lossesOfMissingFile(db, file, daemonId)
}
