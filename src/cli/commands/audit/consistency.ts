/** Verifies that a later state of a log extends an earlier state. */
import { stat } from 'node:fs/promises'
import { Command, Option } from 'commander'
import { logId } from '../../../shared/evidence/entry.ts'
import { isObject } from '../../../shared/evidence/keys.ts'
import { verifyConsistency } from '../../../shared/evidence/merkle.ts'
import type { Checkpoint } from '../../../shared/evidence/note.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import type { CheckedChain } from '../../evidence/chains.ts'
import { openExport, readGivenKeys } from '../../evidence/export-reader.ts'
import { getTrustedKeys, KEYS_OPTION, noteTrust, OWN_KEYS } from '../../evidence/key-set.ts'
import { readCheckpointFiles } from '../../evidence/note-file.ts'
import { logOf, toPath } from '../../evidence/remembered.ts'
import { parseJson } from '../../evidence/shapes.ts'
import { assertValid, checkEvidence } from '../../evidence/verification.ts'
import { repeatable } from '../../input/repeatable.ts'
import { readText } from '../../input/text-input.ts'
import { columns, flexible } from '../../output/formats.ts'

type Flags = { proof: string[]; keys?: string }
/** A saved response of GET /transparency/proofs/consistency. */
type Proof = { from: number; to: number; path: Buffer[] }
type Finding = { log: string; from: number; to: number | null; consistent: boolean; problem: string | null }

const VIEW = {
  idPath: 'log',
  none: 'There are no checkpoints.',
  members: ['log', 'from', 'to', 'consistent', 'problem'],
  columns: columns({ LOG: 'log', FROM: 'from', TO: 'to', CONSISTENT: 'consistent' }, { PROBLEM: flexible('problem') }),
}

export function toCommand(context: CliContext): Command {
  return new Command('consistency')
    .description(
      'Verify that each log in NEW extends the same log in OLD. OLD and NEW are exports, or files with checkpoints.\n' +
        'Needs no gateway if NEW is an export, or with --keys. Exit 0 if all logs only grew, else 10. Exit 11 if only\nthe keys of an export confirm it.',
    )
    .argument('<old>', 'the earlier state')
    .argument('<new>', 'the later state')
    .addOption(
      repeatable(new Option('--proof <file>', 'a consistency proof, if NEW contains only checkpoints; repeatable')),
    )
    .option(...KEYS_OPTION)
    .addHelpText(
      'after',
      '\nTo get a proof:\n  aigw api GET "/api/external/transparency/proofs/consistency?chain=changes&from=7&to=12" > proof.json',
    )
    .action((old: string, later: string, flags: Flags) => compare(context, old, later, flags))
}

/** Prints one line for each checkpoint of OLD. Throws an error with exit code 10 if a log did not only grow. */
async function compare(context: CliContext, old: string, later: string, flags: Flags): Promise<void> {
  const output = await context.output()
  output.assertShowable(VIEW)
  const proofs = await Promise.all(flags.proof.map(readProof))
  const isExport = { old: await isFolder(old), later: await isFolder(later) }
  const before = isExport.old ? await headsOf(context, old, flags) : await notesOf(context, old, flags)
  const findings = isExport.later
    ? await compareWithExport(context, before, later, flags)
    : compareNotes(before, await notesOf(context, later, flags), proofs)
  await output.list(findings, VIEW)
  const bad = findings.find(({ consistent }) => !consistent)
  if (bad !== undefined)
    throw new CliError(EXIT.checkFailed, `the log ${bad.log} is not consistent: ${bad.problem}`, { code: 'LOG_FORKED' })
  if (flags.keys === undefined && (isExport.old || isExport.later)) {
    throw new CliError(EXIT.ownKeys, `the logs are ${OWN_KEYS}`, {
      code: 'KEYS_OF_THE_EXPORT',
      hints: ['Anyone can make such an export. Name keys from another source:  --keys FILE'],
    })
  }
}

const isFolder = async (path: string): Promise<boolean> => {
  const found = await stat(path).catch(() => undefined)
  if (found === undefined) throw usageError(`${path} does not exist`)
  return found.isDirectory()
}

async function notesOf(context: CliContext, path: string, { keys }: Flags): Promise<Checkpoint[]> {
  const trusted = await getTrustedKeys(context, keys)
  await noteTrust(context, trusted)
  return readCheckpointFiles(context, [path], trusted)
}

/** Verifies an export. Returns its chains, and the checkpoints of the given ones that do not match. */
async function verifyExport(
  context: CliContext,
  folder: string,
  outside: readonly Checkpoint[],
  { keys }: Flags,
): Promise<{ tenantId: string; checked: CheckedChain[] }> {
  const { source, trusted, onRow, assertEnd } = await openExport(folder, await readGivenKeys(keys))
  await noteTrust(context, trusted)
  const checked = await checkEvidence(context, source, { trusted, outside, onRow })
  if (checked.every(({ ok }) => ok)) await assertEnd(checked)
  return { tenantId: source.tenantId, checked }
}

/** Returns the head of each chain of an export as a checkpoint. */
async function headsOf(context: CliContext, folder: string, flags: Flags): Promise<Checkpoint[]> {
  const { tenantId, checked } = await verifyExport(context, folder, [], flags)
  assertValid(checked)
  return checked.map(({ chain, size, root }) => ({
    origin: `export/logs/${logId(tenantId, chain)}`,
    size,
    root: Buffer.from(root, 'hex').toString('base64'),
  }))
}

/** The entries of the export are hashed up to each earlier checkpoint, so no proof is needed. */
async function compareWithExport(
  context: CliContext,
  before: readonly Checkpoint[],
  folder: string,
  flags: Flags,
): Promise<Finding[]> {
  const { tenantId, checked } = await verifyExport(context, folder, before, flags)
  return before.map((checkpoint) => {
    const log = logOf(checkpoint)
    const chain = checked.find((one) => logId(tenantId, one.chain) === log)
    const problem = chain === undefined ? 'NEW does not contain this log' : (chain.firstBad?.problem ?? null)
    return { log, from: checkpoint.size, to: chain?.size ?? null, consistent: problem === null, problem }
  })
}

function compareNotes(
  before: readonly Checkpoint[],
  after: readonly Checkpoint[],
  proofs: readonly Proof[],
): Finding[] {
  return before.map((old) => {
    const log = logOf(old)
    const later = after.filter((checkpoint) => logOf(checkpoint) === log && checkpoint.size >= old.size)
    const to = later.reduce<number | null>((most, { size }) => Math.max(most ?? 0, size), null)
    const problem = problemOf(old, later, proofs, { exists: after.some((checkpoint) => logOf(checkpoint) === log) })
    return { log, from: old.size, to, consistent: problem === null, problem }
  })
}

/** @param later the checkpoints of the same log with at least as many entries */
function problemOf(
  old: Checkpoint,
  later: readonly Checkpoint[],
  proofs: readonly Proof[],
  { exists }: { exists: boolean },
): string | null {
  if (!exists) return 'NEW does not contain this log'
  if (later.length === 0) return `it was rolled back: NEW has no checkpoint of ${old.size} entries or more`
  const same = later.filter(({ size }) => size === old.size)
  if (same.some(({ root }) => root !== old.root)) return `it was forked: ${old.size} entries have two roots`
  // Each larger checkpoint needs a proof: one that is proven says nothing about another one.
  for (const { size, root } of later.filter((checkpoint) => checkpoint.size > old.size)) {
    const given = proofs.filter(({ from, to }) => from === old.size && to === size)
    if (given.length === 0) return `a proof from ${old.size} to ${size} is missing; give it with --proof`
    const isProven = given.some(({ path }) => verifyConsistency({ ...rootsOf(old, root), newSize: size, path }))
    if (!isProven) return `it was forked: the proof from ${old.size} to ${size} does not hold`
  }
  return null
}

const rootsOf = (old: Checkpoint, newRoot: string) => ({
  oldSize: old.size,
  oldRoot: Buffer.from(old.root, 'base64'),
  newRoot: Buffer.from(newRoot, 'base64'),
})

async function readProof(file: string): Promise<Proof> {
  const json = parseJson(await readText(file))
  const path = toPath(json)
  if (!isObject(json) || path === undefined || !Number.isSafeInteger(json.from) || !Number.isSafeInteger(json.to)) {
    throw usageError(`${file} contains no consistency proof`, [
      'Save the response of /transparency/proofs/consistency.',
    ])
  }
  return { from: Number(json.from), to: Number(json.to), path }
}
