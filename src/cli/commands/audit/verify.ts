/** Verifies the log of a gateway or of an export. */
import { Command, Option } from 'commander'
import { lossesIn } from '../../../shared/evidence/export-statement.ts'
import { timeOf } from '../../../shared/evidence/keys.ts'
import type { Checkpoint } from '../../../shared/evidence/note.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import {
  type CheckedChain,
  type CheckpointNote,
  checkpointsOf,
  type EvidenceSource,
  type SignedRow,
} from '../../evidence/chains.ts'
import { openExport, readGivenKeys } from '../../evidence/export-reader.ts'
import { openGateway } from '../../evidence/gateway-source.ts'
import { getTrustedKeys, KEYS_OPTION, noteTrust, OWN_KEYS, type TrustedKeys } from '../../evidence/key-set.ts'
import { readCheckpointFiles } from '../../evidence/note-file.ts'
import { compareWithMemory, openMemory } from '../../evidence/remembered.ts'
import { assertValid, checkEvidence, toRow } from '../../evidence/verification.ts'
import { POLICY_OPTION, readPolicy, Witnessing } from '../../evidence/witnessing.ts'
import { repeatable } from '../../input/repeatable.ts'
import { columns, flexible } from '../../output/formats.ts'

type Flags = { checkpoint: string[]; otherLogs: boolean; keys?: string; policy?: string }

export function toCommand(context: CliContext): Command {
  return new Command('verify')
    .description(
      'Verify on this machine that the log is unchanged: every entry, every signature, every checkpoint.\n' +
        'Exit 0 if it is valid, else 10 with the first invalid entry. Exit 11 if an export is valid, but only by its own\n' +
        'keys: name others with --keys. A log that was truncated, or reset to an earlier state, is detected with a\n' +
        'checkpoint from outside the gateway.',
    )
    .argument('[dir]', "an export, which needs no gateway; default: the gateway's log")
    .addOption(repeatable(new Option('--checkpoint <file>', 'checkpoints from outside the gateway; repeatable')))
    .option('--other-logs', 'the files also contain checkpoints of other tenants', false)
    .option(...KEYS_OPTION)
    .option(...POLICY_OPTION)
    .addHelpText('after', '\nExample:\n  aigw audit verify --checkpoint kept.note --keys aigw-keys.json')
    .action((folder: string | undefined, flags: Flags) => verifyAudit(context, folder, flags))
}

const CHECKED_VIEW = {
  idPath: 'chain',
  none: 'The log is empty.',
  columns: columns(
    { CHAIN: 'chain', VALID: 'ok', ENTRIES: 'entries', EXPUNGED: 'expunged', CHECKPOINTS: 'checkpoints' },
    { 'FIRST BAD': 'first_bad', PROBLEM: flexible('problem') },
  ),
}

/** Prints the result of each chain. Throws an error with exit code 10 if a chain is invalid. */
async function verifyAudit(context: CliContext, folder: string | undefined, flags: Flags): Promise<void> {
  const output = await context.output()
  output.assertShowable(CHECKED_VIEW)
  const { checked, from } =
    folder === undefined ? await verifyGateway(context, flags) : await verifyFolder(context, folder, flags)
  await output.list(checked.map(toRow), CHECKED_VIEW)
  assertValid(checked)
  if (flags.checkpoint.length === 0) {
    await context.note('note: without --checkpoint, a truncated log, or one reset to an earlier state, is not detected')
  }
  if (from === 'export') {
    throw new CliError(EXIT.ownKeys, `the export is ${OWN_KEYS}`, {
      code: 'KEYS_OF_THE_EXPORT',
      hints: ['Anyone can make such an export. Name keys from another source:  --keys FILE'],
    })
  }
}

type Verified = { checked: CheckedChain[]; from: TrustedKeys['from'] }

async function verifyGateway(context: CliContext, { keys: keyFile, ...flags }: Flags): Promise<Verified> {
  const memory = await openMemory(context)
  const policy = await readPolicy(flags.policy)
  const source = await openGateway(context)
  // Requests the sizes of the chains before the keys, so that the keys include every key that signed an entry.
  const trusted = await getTrustedKeys(context, keyFile)
  await noteTrust(context, trusted)
  const { tenantId, latest: current = [] } = source
  await compareWithMemory(context, memory, { trusted, current })
  const outside = await readCheckpointFiles(context, flags.checkpoint, trusted)
  assertKnown(source, outside, flags)
  const witnessing = policy && new Witnessing({ policy, keys: trusted.keys, tenantId, readAtMs: Date.now() })
  const checked = await checkEvidence(context, source, { trusted, outside, ...witnessedBy(witnessing) })
  await noteWitnessing(context, { source, checked, witnessing })
  return { checked, from: trusted.from }
}

async function verifyFolder(
  context: CliContext,
  folder: string,
  { keys: keyFile, ...flags }: Flags,
): Promise<Verified> {
  const policy = await readPolicy(flags.policy)
  const { source, statement, trusted, onRow, assertEnd } = await openExport(folder, await readGivenKeys(keyFile))
  await noteTrust(context, trusted)
  const outside = await readCheckpointFiles(context, flags.checkpoint, trusted)
  assertKnown(source, outside, flags)
  const { tenantId } = source
  const readAtMs = timeOf(statement.signed_at)
  const witnessing = policy && new Witnessing({ policy, keys: trusted.keys, tenantId, readAtMs })
  const checked = await checkEvidence(context, source, { trusted, outside, ...witnessedBy(witnessing, onRow) })
  if (checked.every(({ ok }) => ok)) await assertEnd(checked)
  for (const loss of lossesIn(statement)) await context.note(`note: ${loss}`)
  await noteWitnessing(context, { source, checked, witnessing })
  return { checked, from: trusted.from }
}

const witnessedBy = (witnessing: Witnessing | undefined, onRow?: (seen: SignedRow) => void) => ({
  onCheckpoint: (checkpoint: CheckpointNote) => witnessing?.add(checkpoint),
  onRow(seen: SignedRow) {
    onRow?.(seen)
    witnessing?.addRow(seen.row)
  },
})

/** Throws an error with exit code 10 if a valid log lacks the cosignatures that the policy demands. */
async function noteWitnessing(
  context: CliContext,
  {
    source: { heads },
    checked,
    witnessing,
  }: { source: EvidenceSource; checked: readonly CheckedChain[]; witnessing: Witnessing | undefined },
): Promise<void> {
  if (witnessing === undefined || !checked.every(({ ok }) => ok)) return
  witnessing.assertCosigned(heads)
  await context.note(`note: ${witnessing.coverage(heads)}`)
}

/**
 * Throws an error with exit code 10 if the source lacks the chain of a checkpoint: the whole chain may have been
 * removed.
 */
function assertKnown(
  { tenantId, heads }: EvidenceSource,
  outside: readonly Checkpoint[],
  { otherLogs }: Pick<Flags, 'otherLogs'>,
): void {
  if (otherLogs) return
  const known = new Set(heads.flatMap(({ chain }) => checkpointsOf(tenantId, chain, outside)))
  const unknown = outside.find((checkpoint) => !known.has(checkpoint))
  if (unknown === undefined) return
  throw new CliError(EXIT.checkFailed, `the log ${unknown.origin} of a given checkpoint does not exist`, {
    code: 'LOG_MISSING',
    hints: ['Does the file also contain checkpoints of other tenants?  --other-logs'],
  })
}
