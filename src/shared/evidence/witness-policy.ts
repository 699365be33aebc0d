import { ALWAYS, cosignedAtMs, isOfKey, type WitnessKey } from './cosignature.ts'
import { isWithin, KEY_WINDOW_SLACK_MS, type KeyWindow, type PublishedKey, timeOf, windowOf } from './keys.ts'
import { type Checkpoint, NoteError, parseCheckpoint, signedNoteOf } from './note.ts'
import { parseWitnessKey, VerifierKeyError } from './verifier-key.ts'

/** A witness, or a group of members of which at least `threshold` must cosign. */
type Group = { threshold: number; members: readonly string[] }

/** Which witnesses must cosign a checkpoint (C2SP tlog-policy). */
export type WitnessPolicy = {
  witnesses: ReadonlyMap<string, WitnessKey>
  groups: ReadonlyMap<string, Group>
  /** The name of a witness or group, or `none`. */
  quorum: string
}

/** The error for a text that is not a policy. The message names the line. */
export class WitnessPolicyError extends Error {
  override name = 'WitnessPolicyError'
}

/** The maximum number of lines of a policy. */
const MAX_LINES = 1_000
const NONE = 'none'

/**
 * Parses a policy in the format of C2SP tlog-policy: lines `witness`, `group` and `quorum`. The line
 * `valid <witness> <from> <until>` is an extension: it limits the times at which a key may cosign; `-` means no limit.
 * Lines `log` are rejected, because the keys of the log come from the key set.
 * @throws WitnessPolicyError
 */
export function parseWitnessPolicy(text: string): WitnessPolicy {
  const witnesses = new Map<string, WitnessKey>()
  const groups = new Map<string, Group>()
  const grouped = new Set<string>()
  let quorum: string | undefined
  const isDefined = (name: string) => witnesses.has(name) || groups.has(name)

  function addName(name: string | undefined): string {
    if (name === undefined) throw new WitnessPolicyError('a name is missing')
    if (name === NONE || isDefined(name)) throw new WitnessPolicyError(`the name ${name} is already in use`)
    return name
  }

  function addWitness([name, key = '', , ...others]: string[]): void {
    if (others.length > 0) throw new WitnessPolicyError('a witness has a name, a key, and at most a URL')
    const added = addName(name)
    const parsed = parseWitnessKey(key)
    if ([...witnesses.values()].some(({ publicKey }) => publicKey.equals(parsed.publicKey)))
      throw new WitnessPolicyError('two witnesses have the same key')
    witnesses.set(added, { ...parsed, window: ALWAYS })
  }

  function addGroup([name, threshold = '', ...members]: string[]): void {
    const added = addName(name)
    const unknown = members.find((member) => !isDefined(member))
    if (members.length === 0) throw new WitnessPolicyError(`the group ${added} has no members`)
    if (unknown !== undefined) throw new WitnessPolicyError(`${unknown} is not defined on an earlier line`)
    for (const member of members) {
      // Otherwise, one witness could count twice.
      if (grouped.has(member)) throw new WitnessPolicyError(`${member} is already a member of a group`)
      grouped.add(member)
    }
    groups.set(added, { threshold: thresholdOf(threshold, members.length), members })
  }

  function limit([name = '', from = '', until = '', ...others]: string[]): void {
    const witness = witnesses.get(name)
    if (witness === undefined || others.length > 0) {
      throw new WitnessPolicyError('valid has the name of a witness on an earlier line, and two times')
    }
    witnesses.set(name, { ...witness, window: parseWindow(from, until) })
  }

  const lines = text.split('\n')
  if (lines.length > MAX_LINES) throw new WitnessPolicyError(`it has more than ${MAX_LINES} lines`)
  for (const [index, line] of lines.entries()) {
    const [keyword, ...words] = line.split(/[ \t]+/).filter((word) => word !== '')
    if (keyword === undefined || keyword.startsWith('#')) continue
    try {
      if (keyword === 'witness') addWitness(words)
      else if (keyword === 'group') addGroup(words)
      else if (keyword === 'valid') limit(words)
      else if (keyword === 'quorum') {
        const [name = '', ...others] = words
        if (quorum !== undefined) throw new WitnessPolicyError('there may be only one quorum')
        if (others.length > 0 || (name !== NONE && !isDefined(name)))
          throw new WitnessPolicyError('quorum names one witness or group of an earlier line')
        quorum = name
      } else if (keyword === 'log')
        throw new WitnessPolicyError('remove the log: its keys come from the key set of the gateway')
      else throw new WitnessPolicyError(`unknown keyword ${keyword}`)
    } catch (error) {
      if (!(error instanceof WitnessPolicyError || error instanceof VerifierKeyError)) throw error
      throw new WitnessPolicyError(`line ${index + 1}: ${error.message}`)
    }
  }
  if (quorum === undefined) throw new WitnessPolicyError('it has no quorum')
  return { witnesses, groups, quorum }
}

function thresholdOf(text: string, members: number): number {
  if (text === 'all') return members
  if (text === 'any') return 1
  const threshold = /^[1-9]\d{0,3}$/.test(text) ? Number(text) : Number.NaN
  if (threshold <= members) return threshold
  throw new WitnessPolicyError(`a group needs all, any, or a number from 1 to ${members}`)
}

/** Parses the two times of a window. `-` means no limit. @throws WitnessPolicyError */
function parseWindow(from: string, until: string): KeyWindow {
  const [fromMs, untilMs] = [parseTime(from, ALWAYS.fromMs), parseTime(until, ALWAYS.untilMs)]
  if (fromMs < untilMs) return { fromMs, untilMs }
  throw new WitnessPolicyError('the second time must be after the first')
}

/** ISO 8601 with seconds and `Z`. Other notations would depend on the time zone. */
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{3})?Z$/

function parseTime(text: string, unlimited: number): number {
  if (text === '-') return unlimited
  const [, seconds, millis = '.000'] = TIME.exec(text) ?? []
  // Times in evidence are strict: for Date.parse, 30 February is 2 March.
  const ms = timeOf(`${seconds}${millis}Z`)
  if (Number.isNaN(ms)) throw new WitnessPolicyError('a time must have the form 2026-01-31T12:00:00Z, or be -')
  return ms
}

/** A checkpoint whose cosignatures satisfy a policy. `cosigners` are names of the policy. */
export type CosignedCheckpoint = { checkpoint: Checkpoint; cosigners: string[] }

export type PolicyOptions = {
  /** The trusted keys of the log. */
  keys: readonly PublishedKey[]
  policy: WitnessPolicy
  nowMs: number
}

/**
 * Returns the checkpoint of a note if one of the keys has signed it, and enough witnesses have cosigned it. A
 * cosignature counts only if it is not from the future, is within the window of the witness's key, and is within the
 * window of a key with which the log signed: its time is the only proven time of that signature.
 * @throws NoteError
 */
export function cosignedNoteOf(note: string, { keys, policy, nowMs }: PolicyOptions): CosignedCheckpoint {
  const { checkpoint, signedWith } = signedNoteOf(note, keys)
  const { text, signatures } = parseCheckpoint(note)
  const cosigners = new Set<string>()
  for (const [name, witness] of policy.witnesses) {
    for (const line of signatures.filter((signature) => isOfKey(signature, witness))) {
      const atMs = cosignedAtMs(line, text, witness)
      if (atMs === undefined) throw new NoteError(`the cosignature of ${name} is wrong`)
      const isInTime = atMs <= nowMs + KEY_WINDOW_SLACK_MS && isWithin(atMs, witness.window)
      if (isInTime && signedWith.some((key) => isWithin(atMs, windowOf(key)))) cosigners.add(name)
    }
  }
  if (!isMet(policy, policy.quorum, cosigners)) {
    const found = [...cosigners].join(', ') || 'no witness'
    throw new NoteError(`it lacks cosignatures: ${requirementOf(policy)}; valid ones are of ${found}`)
  }
  return { checkpoint, cosigners: [...cosigners] }
}

/** Whether a witness has cosigned, or enough members of a group have. */
function isMet({ groups, ...policy }: WitnessPolicy, name: string, cosigners: ReadonlySet<string>): boolean {
  if (name === NONE) return true
  const group = groups.get(name)
  if (group === undefined) return cosigners.has(name)
  const met = group.members.filter((member) => isMet({ groups, ...policy }, member, cosigners))
  return met.length >= group.threshold
}

/** Describes a policy: `2 of w1, w2, w3 must cosign`. */
function requirementOf({ groups, quorum }: WitnessPolicy): string {
  const group = groups.get(quorum)
  return group ? `${group.threshold} of ${group.members.join(', ')} must cosign` : `${quorum} must cosign`
}
