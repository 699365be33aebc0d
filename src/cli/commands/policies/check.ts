import { Command, Option } from 'commander'
import type { PolicyCheckResponse } from '../../../shared/wire/policy-check.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { repeatable } from '../../input/repeatable.ts'
import { addTextArgument, readTextInput } from '../../input/text-input.ts'
import { toChatRequest } from '../chat/input.ts'

type Flags = { policy?: string; model: string[]; index?: string }
export type CheckInput = Flags & { file: string }

export function toCommand(context: CliContext, run = checkPolicy): Command {
  const command = new Command('check').description(
    'Show what would become of a prompt, check by check: no model is asked, nothing is billed or kept. Exit 10 when it\n' +
      'would not be let through.',
  )
  return addTextArgument(command)
    .option('--policy <name>', "SMLTP policy to ask for (default: the profile's, else the key's)")
    .addOption(repeatable(new Option('-m, --model <id>', 'model, as PROVIDER/MODEL; repeatable for a chain')))
    .option('-i, --index <name>', "knowledge base; 'none' for no retrieval")
    .addHelpText('after', '\nExample:\n  aigw policies check --policy confidential -m local/extract mail.txt')
    .action((file: string, flags: Flags) => run(context, { file, ...flags }))
}

/** POST /policy-check. Prints every check; throws exit 10 when the gateway would not let the request through. */
export async function checkPolicy(context: CliContext, { file, ...flags }: CheckInput): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const prompt = await readTextInput(context, file)
  const json = toChatRequest({ ...flags, models: flags.model }, { prompt }, settings.chat, false)
  const { body, raw } = await api.send<PolicyCheckResponse>({
    method: 'POST',
    path: 'policy-check',
    json,
    repeatable: true,
  })
  const rows = Object.entries(body.checks).map(([check, outcome]) => toRow(check, outcome))
  await output.list(rows, VIEW, raw)
  if (body.allowed) return
  const failed = rows.filter(({ result }) => result === 'failed').map(({ check }) => check)
  throw new CliError(EXIT.checkFailed, `this request is not allowed (${failed.join(', ')})`, { code: 'NOT_ALLOWED' })
}

const VIEW = {
  columns: [{ path: 'check' }, { path: 'result' }, { path: 'detail', flexible: true }],
  idPath: 'check',
}

type Outcome = PolicyCheckResponse['checks'][keyof PolicyCheckResponse['checks']]
type Made = Extract<Outcome, { passed: boolean }>
type Row = { check: string; result: 'passed' | 'failed' | 'skipped'; detail: string }

/** A check with everything that the gateway said of it, and that in words. */
function toRow(check: string, outcome: Outcome): Row {
  if ('skipped' in outcome) return { check, result: 'skipped', detail: '' }
  const { passed, ...more } = outcome
  return passed
    ? { check, result: 'passed', detail: factsOf(outcome), ...more }
    : { check, result: 'failed', detail: `${more.error}: ${more.message}`, ...more }
}

function factsOf(check: Made): string {
  if ('applied' in check && check.applied) return `${check.applied.canonical} (${check.applied.source})`
  if ('points_required' in check) {
    return `${check.points_required} points, ${check.points_remaining ?? 'any number'} left`
  }
  if ('findings' in check) {
    const told = check.findings?.map(({ types, action, enforced }) => {
      const found = Object.entries(types).map(([type, count]) => `${count} ${type}`)
      return `${found.join(', ')}: ${action}${enforced ? '' : ' (only recorded)'}`
    })
    return told?.join('; ') ?? ''
  }
  if ('verdict' in check) return `${check.verdict}, score ${check.risk_score}`
  return ''
}
