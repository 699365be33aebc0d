/** Remembers the last checkpoint of each log of a gateway, and compares new checkpoints with it. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { logId } from '../../shared/evidence/entry.ts'
import { isObject } from '../../shared/evidence/keys.ts'
import { type ConsistencyClaim, verifyConsistency } from '../../shared/evidence/merkle.ts'
import { type Checkpoint, NoteError, verifyNote } from '../../shared/evidence/note.ts'
import type { CliContext } from '../context.ts'
import type { CliCode } from '../error-codes.ts'
import { CliError, EXIT } from '../errors.ts'
import { findStateDir, readState, writeState } from '../profile/state-files.ts'
import type { CheckpointNote } from './chains.ts'
import { TRANSPARENCY } from './gateway-source.ts'
import { type TrustedKeys, withKeys } from './key-set.ts'
import { isText, parseJson } from './shapes.ts'

/** A remembered checkpoint. The file name is the log id. */
type Remembered = { id: string; chain: string; note: string }

/** The remembered checkpoints of one gateway, by log id. Read them before the gateway's current checkpoints. */
export type Memory = {
  /** Undefined if the CLI keeps no state. */
  folder: string | undefined
  logs: ReadonlyMap<string, Remembered>
}

/** The log id in the origin of a checkpoint. */
export const logOf = ({ origin }: Checkpoint): string => origin.slice(origin.lastIndexOf('/') + 1)

const LOG_FILE = /^([0-9a-f]{32})\.json$/

/** Reads the remembered checkpoints of the gateway. Unreadable files count as missing. */
export async function openMemory(context: CliContext): Promise<Memory> {
  const { baseUrl } = await context.settings()
  const state = await findStateDir(context.io.env)
  if (state === undefined) return { folder: undefined, logs: new Map() }
  const folder = join(state, 'checkpoints', encodeURIComponent(baseUrl))
  const logs = new Map<string, Remembered>()
  for (const name of await readdir(folder).catch(() => [])) {
    const [, id] = LOG_FILE.exec(name) ?? []
    const json = parseJson(await readState(join(folder, name)))
    if (id === undefined || !isObject(json) || !isText(json.chain) || !isText(json.note)) continue
    logs.set(id, { id, chain: json.chain, note: json.note })
  }
  return { folder, logs }
}

type Seen = {
  trusted: TrustedKeys
  /** The checkpoints that the gateway shows now. */
  current: readonly CheckpointNote[]
  /** If this id is given, `current` must contain all remembered logs of this tenant. */
  tenantId?: string
}

/**
 * Compares the gateway's current checkpoints with the remembered ones, and remembers the current ones. If a log has
 * grown, the gateway must prove that the new checkpoint extends the remembered one. The first checkpoint of a log is
 * remembered without a proof. Throws an error with exit code 10 if a log was forked, rolled back or removed, or if its
 * key is no longer published. Then the remembered checkpoints stay as they are.
 */
export async function compareWithMemory(context: CliContext, memory: Memory, seen: Seen): Promise<void> {
  if (memory.folder === undefined) return
  const { trusted, tenantId } = seen
  const known = new Map<string, Checkpoint>()
  for (const log of memory.logs.values()) known.set(log.id, await knownCheckpoint(log, trusted))
  const latest = await latestOf(seen)
  for (const [id, { checkpoint, chain }] of latest) {
    const old = known.get(id)
    if (old !== undefined) await requireGrown(context, chain, old, checkpoint)
  }
  for (const log of memory.logs.values()) {
    const isOfTenant = tenantId !== undefined && logId(tenantId, log.chain) === log.id
    if (!isOfTenant || latest.has(log.id)) continue
    throw lost('LOG_MISSING', `the gateway no longer has a checkpoint of the log ${log.chain}`, log)
  }
  for (const [id, { checkpoint, chain, note }] of latest) {
    const old = known.get(id)
    if (old !== undefined && old.size === checkpoint.size) continue
    const content = { chain, note }
    await writeState(join(memory.folder, `${id}.json`), `${JSON.stringify(content, null, 2)}\n`).catch(
      async (error: unknown) => {
        await context.note(
          `warning: a checkpoint could not be remembered (${error instanceof Error ? error.message : error})`,
        )
      },
    )
  }
}

/** Deletes the remembered checkpoints of the gateway. Returns their number. */
export async function forgetCheckpoints({ folder, logs }: Memory): Promise<number> {
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  return logs.size
}

async function knownCheckpoint(log: Remembered, trusted: TrustedKeys): Promise<Checkpoint> {
  try {
    return await withKeys(trusted, (keys) => verifyNote(log.note, keys))
  } catch (error) {
    if (!(error instanceof NoteError)) throw error
    const message = `the remembered checkpoint of the log ${log.chain} has no signature of a trusted key`
    throw lost('LOG_KEY_MISSING', `${message}: ${error.message}`, log)
  }
}

type Latest = { checkpoint: Checkpoint; chain: string; note: string }

/** Returns the largest checkpoint of each log, by log id. Throws an error with exit code 10 for an invalid note. */
async function latestOf({ current, trusted }: Seen): Promise<Map<string, Latest>> {
  const latest = new Map<string, Latest>()
  for (const { chain, note } of current) {
    const checkpoint = await withKeys(trusted, (keys) => verifyNote(note, keys)).catch((error: unknown) => {
      if (!(error instanceof NoteError)) throw error
      throw new CliError(EXIT.checkFailed, `the checkpoint of the chain ${chain} is invalid: ${error.message}`, {
        code: 'CHECKPOINT_INVALID',
      })
    })
    const id = logOf(checkpoint)
    if ((latest.get(id)?.checkpoint.size ?? -1) < checkpoint.size) latest.set(id, { checkpoint, chain, note })
  }
  return latest
}

async function requireGrown(context: CliContext, chain: string, old: Checkpoint, now: Checkpoint): Promise<void> {
  if (now.size < old.size) {
    const message = `the log ${chain} was rolled back: it has a checkpoint of ${now.size} entries, after one of ${old.size}`
    throw lost('LOG_ROLLED_BACK', message)
  }
  const forked = `the log ${chain} was forked: its checkpoint of ${now.size} entries does not extend the remembered one of ${old.size}`
  if (now.size === old.size) {
    if (now.root === old.root) return
    throw lost('LOG_FORKED', forked)
  }
  const path = await fetchPath(context, chain, old.size, now.size)
  const claim: ConsistencyClaim = {
    ...{ oldSize: old.size, newSize: now.size, path },
    oldRoot: Buffer.from(old.root, 'base64'),
    newRoot: Buffer.from(now.root, 'base64'),
  }
  if (!verifyConsistency(claim)) throw lost('LOG_FORKED', forked)
}

/** Requests a consistency proof. An error of the gateway about the log counts as a missing proof. */
async function fetchPath(context: CliContext, chain: string, from: number, to: number): Promise<Buffer[]> {
  const api = await context.api()
  const query = { chain, from, to }
  const { body } = await api
    .send<object>({ method: 'GET', path: `${TRANSPARENCY}/proofs/consistency`, query })
    .catch((error: unknown) => {
      const isRefusal = error instanceof CliError && REFUSALS.has(error.httpStatus ?? 0)
      if (!isRefusal) throw error
      throw lost('LOG_FORKED', `the gateway cannot prove that the log ${chain} only grew: ${error.message}`)
    })
  return toPath(body) ?? []
}
const REFUSALS: ReadonlySet<number> = new Set([400, 404, 409])

/** Returns the hashes of a consistency proof. Returns undefined if the value is not a proof. */
export function toPath(json: unknown): Buffer[] | undefined {
  const path = isObject(json) ? json.path : undefined
  if (!Array.isArray(path) || !path.every((hash) => isText(hash) && /^[0-9a-f]{64}$/.test(hash))) return undefined
  return path.map((hash: string) => Buffer.from(hash, 'hex'))
}

function lost(code: CliCode, message: string, log?: Remembered): CliError {
  const hints = [
    ...(log === undefined ? [] : [`Remembered:  ${JSON.stringify(log.note)}`]),
    'Losses that the operator knows:  aigw audit losses',
    'To accept the new state:         aigw audit forget',
  ]
  return new CliError(EXIT.checkFailed, message, { code, hints })
}
