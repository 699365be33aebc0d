/** Shows a receipt. */
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { fetchReceipt } from '../../evidence/receipt-file.ts'
import { columns, findAtPath } from '../../output/formats.ts'

/**
 * Formats attempts, each with its latency in milliseconds. Example: `openai/gpt-4o timeout failed 8000, local/extract
 * served 3`.
 */
const toAttempts = (attempts: unknown): unknown =>
  Array.isArray(attempts)
    ? attempts
        .map((attempt) =>
          ['model', 'reason', 'status', 'latency_ms']
            .map((member) => findAtPath(attempt, member))
            .filter((value) => value !== undefined && value !== null)
            .join(' '),
        )
        .join(', ')
    : attempts

/** Formats each guard's verdict and number of findings. Example: `pii mask (2), dlp none`. */
const toVerdicts = (inspection: unknown): string =>
  Object.entries(Object(inspection))
    .map(([guard, found]) => {
      const hits = findAtPath(found, 'hits')
      return `${guard} ${findAtPath(found, 'verdict') ?? '-'}${hits === undefined || hits === 0 ? '' : ` (${hits})`}`
    })
    .join(', ')

const VIEW = {
  idPath: 'bundle_id',
  columns: columns(
    { RECEIPT: 'bundle_id', WHEN: 'issued_at', OUTCOME: 'outcome', RESULT: 'result', OPERATION: 'operation' },
    { ENDPOINT: 'endpoint', REQUEST: 'request_id', 'HTTP STATUS': 'status', 'ASKED FOR': 'requested_model' },
    {
      'SERVED BY': 'model',
      ATTEMPTS: ['attempts', toAttempts],
      POLICY: 'policy.name',
      BASELINE: 'policy.baseline',
      'POLICY HASH': 'policy.hash',
    },
    { MODE: 'mode', GUARDS: ['inspection', toVerdicts], USAGE: 'usage', COST: 'cost' },
    { 'REQUEST SHA-256': 'request_sha256', 'ANSWER SHA-256': 'response_sha256', CHAIN: 'entry.chain' },
    { ENTRY: 'entry.seq', 'SIGNED BY': 'signer', KEY: 'kid' },
  ),
}

export function toCommand(context: CliContext): Command {
  return new Command('show')
    .description(
      'Show the receipt of a request: its policy, its decisions and its cost; never its content.\n' +
        'With -o json it is the signed receipt, which `aigw receipts verify` verifies.',
    )
    .argument('<bundle-id>', 'metadata.smltp.bundle_id of the answer, or its X-SMLTP-Bundle-Id')
    .action((bundleId: string) => showReceipt(context, bundleId))
}

/** GET /receipts/{bundleId}. Throws an error with exit code 3 if it is not found. */
async function showReceipt(context: CliContext, bundleId: string): Promise<void> {
  const output = await context.output()
  const { receipt, raw } = await fetchReceipt(context, bundleId)
  await output.one(receipt, VIEW, raw)
}
