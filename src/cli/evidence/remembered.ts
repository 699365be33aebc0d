/** Remembers the last checkpoint of each log of a gateway, and compares new checkpoints with it. */
import { hash } from 'node:crypto'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject } from '../../shared/evidence/keys.ts'
import { type ConsistencyClaim, verifyConsistency } from '../../shared/evidence/merkle.ts'
import { type Checkpoint, NoteError, verifyNote } from '../../shared/evidence/note.ts'
import type { CliContext } from '../context.ts'
import type { CliCode } from '../error-codes.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import type { Settings } from '../profile/profile.ts'
import { findStateDir, readState, writeState } from '../profile/state-files.ts'
import type { CheckpointNote } from './chains.ts'
import { TRANSPARENCY } from './gateway-source.ts'
import { type TrustedKeys, withKeys } from './key-set.ts'
import { isText, parseJson } from './shapes.ts'

/** A remembered checkpoint. The file name is the log id. */
type Remembered = { id: string; chain: string; note: string }

/**
 * The remembered checkpoints of one gateway. Read them before the gateway's current checkpoints. They are found by what
 * the CLI itself knows: the URL, the profile and the key. What the gateway states, such as a tenant, must not decide it.
 */
export type Memory = {
  /** The folder of the gateway. Undefined if the CLI keeps no state. */
  gatewayFolder: string | undefined
  /** The folder of this profile and key, inside of the gateway's folder. */
  folder: string
  /** What this profile and key have seen, by log id. All of it must still exist. */
  own: ReadonlyMap<string, Remembered>
  /** What other profiles and keys have seen. It may belong to other tenants, so it must only be consistent. */
  others: readonly Remembered[]
}

/** The log id in the origin of a checkpoint. */
export const logOf = ({ origin }: Checkpoint): string => origin.slice(origin.lastIndexOf('/') + 1)

const LOG_FILE = /^([0-9a-f]{32})\.json$/

/** Reads the remembered checkpoints of the gateway. Unreadable files count as missing. */
export async function openMemory(context: CliContext): Promise<Memory> {
  const settings = await context.settings()
  const state = await findStateDir(context.io.env)
  if (state === undefined) return { gatewayFolder: undefined, folder: '', own: new Map(), others: [] }
  const gatewayFolder = join(state, 'checkpoints', encodeURIComponent(settings.baseUrl))
  const identity = identityOf(settings, context.io.env)
  const own = new Map<string, Remembered>()
  const others: Remembered[] = []
  // Earlier versions wrote the files directly into the folder of the gateway.
  for (const name of ['.', ...(await namesIn(gatewayFolder)).filter((entry) => !LOG_FILE.test(entry))]) {
    for (const log of await logsIn(join(gatewayFolder, name))) {
      if (name === identity) own.set(log.id, log)
      else others.push(log)
    }
  }
  return { gatewayFolder, folder: join(gatewayFolder, identity), own, others }
}

/**
 * Returns the name of the folder of a profile. A key from outside of the profile may belong to another tenant, so it
 * has its own folder.
 */
function identityOf({ profile, key }: Settings, env: Io['env']): string {
  const foreign = key.kind === 'file' ? key.path : (env.AIGW_API_KEY ?? '')
  const suffix = foreign === '' ? '' : `+${hash('sha256', foreign, 'hex').slice(0, 16)}`
  return `profile-${encodeURIComponent(profile)}${suffix}`
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])

async function logsIn(folder: string): Promise<Remembered[]> {
  const logs: Remembered[] = []
  for (const name of await namesIn(folder)) {
    const [, id] = LOG_FILE.exec(name) ?? []
    const json = id === undefined ? undefined : parseJson(await readState(join(folder, name)))
    if (id === undefined || !isObject(json) || !isText(json.chain) || !isText(json.note)) continue
    logs.push({ id, chain: json.chain, note: json.note })
  }
  return logs
}

type Seen = {
  trusted: TrustedKeys
  /** The last checkpoint of each log that the gateway shows now. */
  current: readonly CheckpointNote[]
}

/**
 * Compares the gateway's current checkpoints with the remembered ones, and remembers the current ones. If a log has
 * grown, the gateway must prove that the new checkpoint extends the remembered one. The first checkpoint of a log is
 * remembered without a proof. Throws an error with exit code 10 if a log was forked, rolled back, removed or replaced by
 * another one, or if its key is no longer published. Then the remembered checkpoints stay as they are.
 */
export async function compareWithMemory(context: CliContext, memory: Memory, seen: Seen): Promise<void> {
  if (memory.gatewayFolder === undefined) return
  const { trusted } = seen
  const latest = await latestOf(seen)
  const known = new Map<string, Checkpoint>()
  for (const log of memory.own.values()) known.set(log.id, await knownCheckpoint(log, trusted))
  for (const log of [...memory.own.values(), ...memory.others]) {
    const now = latest.get(log.id)
    if (now) await requireGrown(context, now.chain, await knownCheckpoint(log, trusted), now.checkpoint)
  }
  const missing = [...memory.own.values()].find(({ id }) => !latest.has(id))
  if (missing !== undefined) throw missingLog(missing, memory, latest)
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

/** A new log beside a missing one may be the same log under another tenant or name, without its history. */
function missingLog(log: Remembered, { own }: Memory, latest: ReadonlyMap<string, Latest>): CliError {
  const added = [...latest].filter(([id]) => !own.has(id)).map(([id, { chain }]) => `${chain} (${id})`)
  const instead = added.length === 0 ? '' : `, and shows new logs: ${added.join(', ')}`
  return lost(
    'LOG_MISSING',
    `the gateway no longer has a checkpoint of the log ${log.chain} (${log.id})${instead}`,
    log,
  )
}

export const countRemembered = ({ own, others }: Memory): number => own.size + others.length

/** Deletes the remembered checkpoints of the gateway. Returns their number. */
export async function forgetCheckpoints(memory: Memory): Promise<number> {
  if (memory.gatewayFolder !== undefined) await rm(memory.gatewayFolder, { recursive: true, force: true })
  return countRemembered(memory)
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
    // The id is part of a file name.
    if (!LOG_FILE.test(`${id}.json`)) continue
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
