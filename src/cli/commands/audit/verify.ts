import { Command, Option } from 'commander'
import type { Checkpoint } from '../../../shared/evidence/note.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { type CheckedChain, checkpointsOf, type EvidenceSource } from '../../evidence/chains.ts'
import { openExport, readGivenKeys } from '../../evidence/export-reader.ts'
import { openGateway } from '../../evidence/gateway-source.ts'
import { getTrustedKeys, KEYS_OPTION, noteTrust } from '../../evidence/key-set.ts'
import { readCheckpointFiles } from '../../evidence/note-file.ts'
import { assertHolds, CHECKED_VIEW, checkEvidence, toRow } from '../../evidence/verification.ts'
import { repeatable } from '../../input/repeatable.ts'

type Flags = { checkpoint: string[]; otherLogs: boolean; keys?: string }
export type VerifyAuditInput = Flags & { folder: string | undefined }

export function toCommand(context: CliContext, run = verifyAudit): Command {
  return new Command('verify')
    .description(
      'Check that nothing of the log was changed: every entry, every signature, every checkpoint, on this machine.\n' +
        'Exit 0 when it holds, else 10 with the first entry that does not. A log that was cut, or put back to an\n' +
        'earlier state, is found with a checkpoint that was kept elsewhere.',
    )
    .argument('[dir]', "an export, which needs no gateway; without it the gateway's log is read")
    .addOption(repeatable(new Option('--checkpoint <file>', 'checkpoints that were kept elsewhere; repeatable')))
    .option('--other-logs', 'the files also hold checkpoints of other tenants', false)
    .option(...KEYS_OPTION)
    .addHelpText('after', '\nExample:\n  aigw audit verify --checkpoint kept.note --keys aigw-keys.json')
    .action((folder: string | undefined, flags: Flags) => run(context, { folder, ...flags }))
}

/** Prints what became of each chain. Throws exit 10 when one does not hold. */
export async function verifyAudit(context: CliContext, { folder, ...flags }: VerifyAuditInput): Promise<void> {
  const output = await context.output()
  output.assertShowable(CHECKED_VIEW)
  const checked =
    folder === undefined ? await verifyGateway(context, flags) : await verifyFolder(context, folder, flags)
  await output.list(checked.map(toRow), CHECKED_VIEW)
  assertHolds(checked)
  if (flags.checkpoint.length === 0) {
    await context.note('note: without --checkpoint, a log that was cut or put back to an earlier state is not found')
  }
}

async function verifyGateway(context: CliContext, { keys: keyFile, ...flags }: Flags): Promise<CheckedChain[]> {
  const source = await openGateway(context)
  // Asked for after the sizes of the chains, so that they hold every key that has signed up to there.
  const trusted = await getTrustedKeys(context, keyFile)
  await noteTrust(context, trusted)
  const outside = await readCheckpointFiles(context, flags.checkpoint, trusted)
  assertKnown(source, outside, flags)
  return checkEvidence(context, source, { trusted, outside })
}

async function verifyFolder(context: CliContext, folder: string, { keys: keyFile, ...flags }: Flags) {
  const { source, trusted, onRow, assertEnd } = await openExport(folder, await readGivenKeys(keyFile))
  await noteTrust(context, trusted)
  const outside = await readCheckpointFiles(context, flags.checkpoint, trusted)
  assertKnown(source, outside, flags)
  const checked = await checkEvidence(context, source, { trusted, outside, onRow })
  if (checked.every(({ ok }) => ok)) await assertEnd(checked)
  return checked
}

/** Throws exit 10 for a checkpoint of a log that is not there: a whole chain may have been taken out. */
function assertKnown(
  { tenantId, heads }: EvidenceSource,
  outside: readonly Checkpoint[],
  { otherLogs }: Pick<Flags, 'otherLogs'>,
): void {
  if (otherLogs) return
  const known = new Set(heads.flatMap(({ chain }) => checkpointsOf(tenantId, chain, outside)))
  const unknown = outside.find((checkpoint) => !known.has(checkpoint))
  if (unknown === undefined) return
  throw new CliError(EXIT.checkFailed, `there is no log ${unknown.origin}, of which a checkpoint was given`, {
    code: 'LOG_MISSING',
    hints: ['Does the file also hold checkpoints of other tenants?  --other-logs'],
  })
}
