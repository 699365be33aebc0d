import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { inNewFolder } from '../../evidence/export-folder.ts'
import { writeExport } from '../../evidence/export-writer.ts'

const VIEW = {
  idPath: 'directory',
  columns: [
    { path: 'directory' },
    { path: 'entries' },
    { path: 'chains' },
    { path: 'root' },
    { path: 'key' },
    { path: 'created_at', title: 'WHEN' },
  ],
  members: ['directory', 'entries', 'chains', 'root', 'key', 'created_at'],
}

export function toCommand(context: CliContext, run = exportAudit): Command {
  return new Command('export')
    .description(
      'Write the whole log of this tenant into a directory that anyone can check without a gateway:\n' +
        'data, signatures, keys, a signed manifest and a verifier. Each entry is checked on its way.',
    )
    .argument('<dir>', 'a new or empty directory; an earlier export in it is replaced after a question')
    .option(
      '--even-violated',
      'a log that does not hold too, as it is: unsigned, with violations.json; still exit 10',
      false,
    )
    .addHelpText('after', '\nTo check one:\n  aigw audit verify DIR, or: node DIR/verify.mjs')
    .action((folder: string, flags: { evenViolated: boolean }) => run(context, folder, flags))
}

/**
 * Throws exit 10 when the log does not hold, and leaves nothing, or with `evenViolated` the log as it is and a list of what
 * does not hold.
 */
export async function exportAudit(
  context: CliContext,
  folder: string,
  { evenViolated = false }: { evenViolated?: boolean } = {},
): Promise<void> {
  const output = await context.output()
  output.assertShowable(VIEW)
  const written = await inNewFolder(context, folder, (draft) => writeExport(context, draft, { evenViolated }))
  if ('violation' in written) {
    await context.note(`note: the log as it is stands in ${folder}, unsigned; violations.json says what does not hold`)
    throw written.violation
  }
  const { manifest } = written
  const { rowCount, chains, merkleRootOfExport, signingKeyFingerprint, created_at } = manifest
  await context.note(`Exported ${rowCount} entries to ${folder}.`)
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
