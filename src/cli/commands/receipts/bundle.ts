/** Shows a receipt with the proof that a cosigned checkpoint covers it. */
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { fetchBundle } from '../../evidence/receipt-file.ts'
import { writeTo } from '../../io.ts'

export function toCommand(context: CliContext): Command {
  return new Command('bundle')
    .description(
      'Print the receipt of a request together with a proof that a checkpoint of its log covers it, as JSON. The\n' +
        'checkpoint has the cosignatures of the witnesses. `aigw receipts verify` verifies it without a gateway.',
    )
    .argument('<bundle-id>', 'metadata.smltp.bundle_id of the answer, or its X-SMLTP-Bundle-Id')
    .addHelpText('after', '\nExample:\n  aigw receipts bundle jti-0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b > bundle.json')
    .action((bundleId: string) => showBundle(context, bundleId))
}

/** GET /receipts/{bundleId}/bundle. Throws an error with exit code 3 if the receipt is not found. */
async function showBundle(context: CliContext, bundleId: string): Promise<void> {
  const bundle = await fetchBundle(context, bundleId)
  await writeTo(context.io.stdout, `${JSON.stringify(bundle, undefined, 2)}\n`)
}
