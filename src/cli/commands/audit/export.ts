/** Exports the log into a directory. */
import { Command } from 'commander'
import { lossesIn } from '../../../shared/evidence/export-statement.ts'
import type { CliContext } from '../../context.ts'
import { inNewFolder } from '../../evidence/export-folder.ts'
import { writeExport } from '../../evidence/export-writer.ts'
import { columns } from '../../output/formats.ts'

const VIEW = {
  idPath: 'directory',
  columns: columns({
    DIRECTORY: 'directory',
    ENTRIES: 'entries',
    CHAINS: 'chains',
    ROOT: 'root',
    KEY: 'key',
    WHEN: 'created_at',
  }),
  members: ['directory', 'entries', 'chains', 'root', 'key', 'created_at'],
}

export function toCommand(context: CliContext): Command {
  return new Command('export')
    .description(
      'Write the whole log of this tenant into a directory that anyone can verify without a gateway:\n' +
        'data, signatures, keys, a signed manifest and a verifier. Each entry is verified before it is written.',
    )
    .argument('<dir>', 'a new or empty directory; an earlier export is replaced after a confirmation')
    .option('--even-violated', 'export a violated log too: unsigned, with violations.json; still exit 10', false)
    .addHelpText('after', '\nTo verify one:\n  aigw audit verify DIR, or: node DIR/verify.mjs')
    .action((folder: string, flags: { evenViolated: boolean }) => exportAudit(context, folder, flags))
}

/**
 * Throws an error with exit code 10 if the log fails verification. With `evenViolated`, it writes the log and a list of
 * its violations before it throws.
 */
async function exportAudit(
  context: CliContext,
  folder: string,
  { evenViolated }: { evenViolated: boolean },
): Promise<void> {
  const output = await context.output()
  output.assertShowable(VIEW)
  const written = await inNewFolder(context, folder, (draft) => writeExport(context, draft, { evenViolated }))
  if ('violation' in written) {
    await context.note(`note: the violated log is in ${folder}, unsigned; violations.json lists its violations`)
    throw written.violation
  }
  const { manifest, statement } = written
  const { rowCount, chains, merkleRootOfExport, signingKeyFingerprint, created_at } = manifest
  await context.note(`Exported ${rowCount} entries to ${folder}.`)
  for (const loss of lossesIn(statement)) await context.note(`note: ${loss}`)
  await output.one(
    {
      directory: folder,
      entries: rowCount,
      chains: chains.length,
      root: merkleRootOfExport,
      key: signingKeyFingerprint,
      created_at,
    },
    VIEW,
  )
}
