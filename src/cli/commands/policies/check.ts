/** Runs all checks of a chat request without calling a model. */
import { Command, Option } from 'commander'
import type { PolicyCheckResponse } from '../../../shared/wire/policy-check.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { repeatable } from '../../input/repeatable.ts'
import { addTextArgument, readTextInput } from '../../input/text-input.ts'
import { columns, flexible } from '../../output/formats.ts'
import { toChatRequest } from '../chat/input.ts'

type Flags = { policy?: string; model: string[]; index?: string }

export function toCommand(context: CliContext): Command {
  const command = new Command('check').description(
    'Run all checks on a prompt, without calling a model; nothing is billed or stored. Exit 10 if the prompt would be\n' +
      'rejected.',
  )
  return addTextArgument(command)
    .option('--policy <name>', "SMLTP policy to request (default: the profile's, else the key's)")
    .addOption(repeatable(new Option('-m, --model <id>', 'model, as PROVIDER/MODEL; repeatable for a chain')))
    .option('-i, --index <name>', "knowledge base; 'none' for no retrieval")
    .addHelpText('after', '\nExample:\n  aigw policies check --policy confidential -m local/extract mail.txt')
    .action((file: string, flags: Flags) => checkPolicy(context, file, flags))
}

/**
 * POST /policy-check. Prints every check. Throws an error with exit code 10 if the gateway would reject the request.
 */
async function checkPolicy(context: CliContext, file: string, flags: Flags): Promise<void> {
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

const VIEW = { columns: columns({ CHECK: 'check', RESULT: 'result', DETAIL: flexible('detail') }), idPath: 'check' }

type Outcome = PolicyCheckResponse['checks'][keyof PolicyCheckResponse['checks']]
type Made = Extract<Outcome, { passed: boolean }>
type Row = { check: string; result: 'passed' | 'failed' | 'skipped'; detail: string }

/** Converts the result of a check to a row that states the result in words. */
function toRow(check: string, outcome: Outcome): Row {
  if ('skipped' in outcome) return { check, result: 'skipped', detail: '' }
  const { passed, ...more } = outcome
  return passed
    ? { check, result: 'passed', detail: factsOf(outcome), ...more }
    : { check, result: 'failed', detail: `${more.error}: ${more.message}`, ...more }
}

function factsOf(check: Made): string {
  if ('applied' in check && check.applied) {
    const { canonical, source, baseline } = check.applied
    return `${canonical} (${source})${baseline === undefined ? '' : ` with the baseline ${baseline}`}`
  }
  if ('points_required' in check) {
    return `${check.points_required} points, ${check.points_remaining ?? 'any number'} left`
  }
  if ('findings' in check) {
    const texts = check.findings?.map(({ types, action, enforced }) => {
      const found = Object.entries(types).map(([type, count]) => `${count} ${type}`)
      return `${found.join(', ')}: ${action}${enforced ? '' : ' (only recorded)'}`
    })
    return texts?.join('; ') ?? ''
  }
  if ('verdict' in check) return `${check.verdict}, score ${check.risk_score}`
  return ''
}
