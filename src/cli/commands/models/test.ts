import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { receive } from '../chat/answer.ts'
import { toChatRequest } from '../chat/input.ts'

const VIEW = {
  columns: [
    { path: 'model' },
    { path: 'first_token_ms', title: 'FIRST TOKEN MS' },
    { path: 'total_ms', title: 'TOTAL MS' },
    { path: 'prompt_tokens', title: 'IN' },
    { path: 'completion_tokens', title: 'OUT' },
  ],
  idPath: 'model',
  members: ['model', 'first_token_ms', 'total_ms', 'prompt_tokens', 'completion_tokens'],
}

export function toCommand(context: CliContext, run = testModel): Command {
  return new Command('test')
    .description('Ask a model for one token, which is billed, and show how long it takes.')
    .argument('<id>', 'PROVIDER/MODEL, as chat takes it')
    .action((id: string) => run(context, { id }))
}

/** Prints times and tokens of one short answer. Throws exit 8 when none comes, or when it comes from another model. */
export async function testModel(context: CliContext, { id }: { id: string }): Promise<void> {
  const output = await context.output()
  output.assertShowable(VIEW)
  const body = toChatRequest({ models: [id], index: 'none', maxTokens: '1' }, { prompt: 'ping' }, {}, true)
  const answer = await receive(context, { body, idempotencyKey: undefined }, {})
  const served = answer.metadata?.served_model
  if (served !== undefined && served !== id) {
    throw new CliError(EXIT.upstream, `${id} did not answer; ${served} did in its place`, {
      code: 'MODEL_FAILED',
      hints: ['The key has failover models of its own, and one of them stepped in.'],
    })
  }
  const { usage, firstTokenMs, totalMs } = answer
  const row = {
    model: id,
    first_token_ms: firstTokenMs === undefined ? null : Math.round(firstTokenMs),
    total_ms: Math.round(totalMs),
    prompt_tokens: usage?.prompt_tokens ?? null,
    completion_tokens: usage?.completion_tokens ?? null,
  }
  await output.one(row, VIEW)
}
