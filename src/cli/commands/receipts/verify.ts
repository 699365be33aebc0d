/** Verifies a receipt. */
import { Command } from 'commander'
import { isBundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { verifyReceipt } from '../../../shared/evidence/receipt.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { getTrustedKeys, KEYS_OPTION, noteTrust } from '../../evidence/key-set.ts'
import { findReceipt } from '../../evidence/receipt-file.ts'
import { POLICY_OPTION, readPolicy } from '../../evidence/witnessing.ts'
import { findAtPath } from '../../output/formats.ts'

type Flags = { keys?: string; policy?: string }

const MEMBERS = ['valid', 'bundle_id', 'outcome', 'issued_at', 'signer', 'kid', 'keys_from']
const VIEW = { columns: MEMBERS.map((path) => ({ path })), idPath: 'bundle_id', members: MEMBERS }

export function toCommand(context: CliContext): Command {
  return new Command('verify')
    .description(
      'Verify that a receipt is unchanged and that the gateway signed it. Exit 0 if it is valid, else 10.\n' +
        'With a file and --keys it needs no gateway.',
    )
    .argument('<receipt>', "file with the receipt, '-' for stdin, or a bundle id, which is fetched")
    .option(...KEYS_OPTION)
    .option(...POLICY_OPTION)
    .addHelpText('after', '\nExample:\n  aigw receipts verify receipt.json --keys aigw-keys.json')
    .action((receipt: string, flags: Flags) => verifyOne(context, receipt, flags))
}

/** If the receipt is invalid, throws an error with exit code 10 that states the reason. */
async function verifyOne(context: CliContext, given: string, { keys: file, policy: policyFile }: Flags): Promise<void> {
  const output = await context.output()
  output.assertShowable(VIEW)
  const policy = await readPolicy(policyFile)
  const found = await findReceipt(context, given)
  const bundle = isBundle(found) ? found : undefined
  if (policy && !bundle) {
    throw usageError('--policy needs a bundle, because a receipt contains no checkpoint', [
      'Get one:  aigw receipts bundle BUNDLE_ID > bundle.json',
    ])
  }
  const receipt = bundle?.receipt ?? found
  const trusted = await getTrustedKeys(context, file)
  await noteTrust(context, trusted)
  const isKnown = trusted.keys.some((key) => key.kid === findAtPath(receipt, 'kid'))
  if (!isKnown) await trusted.renew()
  const options = { keys: trusted.keys, policy, nowMs: Date.now() }
  const covering = bundle && verifyBundle(bundle, options)
  const verdict = covering ?? verifyReceipt(receipt, trusted.keys)
  if (!verdict.ok) {
    throw new CliError(EXIT.checkFailed, `the receipt is invalid: ${verdict.problem}`, { code: 'RECEIPT_INVALID' })
  }
  const { bundle_id, outcome, issued_at, signer, kid } = partsOf(receipt)
  const retired = trusted.keys.find((key) => key.kid === kid)?.retiredAt
  const state = retired == null ? '' : `, retired ${retired}`
  const covered = covering?.ok ? coverageOf(covering) : ''
  await output.textOrOne(
    `ok: receipt ${bundle_id} of ${issued_at} (${outcome}), signed by ${signer} with key ${kid}${state}${covered}\n`,
    { valid: true, bundle_id, outcome, issued_at, signer, kid, keys_from: trusted.from },
    VIEW,
  )
}

/** Describes the checkpoint of a bundle. Without a policy, no cosignature was verified. */
const coverageOf = ({ size, cosigners }: { size: number; cosigners: readonly string[] }): string =>
  `, covered by a checkpoint of ${size} entries${cosigners.length === 0 ? '' : `, cosigned by ${cosigners.join(', ')}`}`

const partsOf = (receipt: object): Record<string, unknown> =>
  Object.fromEntries(MEMBERS.map((member) => [member, findAtPath(receipt, member)]))
