/** Lists, shows and tests the models that the key is allowed to use. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { ListModelsResponse } from '../../../shared/wire/discovery.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { columns, flexible } from '../../output/formats.ts'

export const commands = {
  list: (context: CliContext) =>
    new Command('list')
      .description(
        "List the models this key may use, with their limits in tokens and their prices per million tokens. 'NAME/*' stands for any model of that provider.",
      )
      .option('--provider <name>', 'only those of this provider, the part before the slash')
      .action(async ({ provider }: { provider?: string }) => {
        const output = await context.output()
        const { models, raw } = await fetchModels(context, provider)
        await output.list(models, MODEL_VIEW, raw)
      }),
  show: (context: CliContext) =>
    new Command('show')
      .description('Show a model, if this key may use it.')
      .argument('<id>', 'PROVIDER/MODEL or a name, as for chat')
      .action((id: string) => show(context, id)),
  test: (context: CliContext) =>
    new Command('test')
      .description('Request one token from a model, which is billed, and show the response times.')
      .argument('<id>', 'PROVIDER/MODEL or a name, as for chat')
      .action((id: string) => testModel(context, id)),
}

const MODEL_VIEW = {
  columns: columns(
    { MODEL: flexible('id'), PROVIDER: 'provider', CONTEXT: 'context_length', OUTPUT: 'max_output_tokens' },
    { ACCEPTS: 'modalities.input', '$ IN': 'prices.input', '$ OUT': 'prices.output' },
  ),
  idPath: 'id',
  none: 'This key may use no model.',
}

type ModelList = z.infer<typeof ListModelsResponse>
type Model = ModelList['models'][number]

/** GET /models: the models that this key may use, either of all providers or of one provider. */
export async function fetchModels(context: CliContext, provider?: string) {
  const api = await context.api()
  const { body, raw } = await api.send<ModelList>({ method: 'GET', path: 'models', query: { provider } })
  return { models: body.models, raw }
}

/**
 * Shows a model. The entry `PROVIDER/*` matches every model of this provider. Throws an error with exit code 3 if this
 * key is not allowed to use the model.
 */
async function show(context: CliContext, id: string): Promise<void> {
  const output = await context.output()
  const { models, raw } = await fetchModels(context)
  const model = models.find((each) => each.id === id) ?? findWildcard(models, id)
  if (model === undefined) throw await unknownModel(models, id)
  if (model.id !== id) await context.note(`note: this key may use any model of '${model.provider}'`)
  await output.one(model, MODEL_VIEW, raw)
}

function findWildcard(models: Model[], id: string): Model | undefined {
  const at = id.indexOf('/')
  return at > 0 && at < id.length - 1 ? models.find((each) => each.id === `${id.slice(0, at)}/*`) : undefined
}

async function unknownModel(models: Model[], id: string): Promise<CliError> {
  const { findNearestName } = await import('../../../shared/nearest-name.ts')
  const ids = models.map((model) => model.id)
  const nearest = findNearestName(id, ids)
  return new CliError(EXIT.notFound, `this key may not use the model '${id}'`, {
    code: 'MODEL_NOT_FOUND',
    hints: [
      ...(nearest === undefined ? [] : [`Did you mean '${nearest}'?`]),
      'To list the models that this key may use, run: aigw models list',
    ],
  })
}

const TEST_COLUMNS = columns(
  { MODEL: 'model', 'FIRST TOKEN MS': 'first_token_ms', 'TOTAL MS': 'total_ms', IN: 'prompt_tokens' },
  { OUT: 'completion_tokens' },
)
const TEST_VIEW = { columns: TEST_COLUMNS, idPath: 'model', members: TEST_COLUMNS.map(({ path }) => path) }

/**
 * Requests one short answer and prints its times and tokens. Throws an error with exit code 8 if this model does not
 * answer.
 */
async function testModel(context: CliContext, id: string): Promise<void> {
  const [{ receive }, { toChatRequest }] = await Promise.all([import('../chat/answer.ts'), import('../chat/input.ts')])
  const output = await context.output()
  output.assertShowable(TEST_VIEW)
  const body = toChatRequest({ models: [id], index: 'none', maxTokens: '1' }, { prompt: 'ping' }, {}, true)
  const { metadata, usage, firstTokenMs, totalMs } = await receive(context, { body, idempotencyKey: undefined }, {})
  const served = metadata?.served_model
  // A name is always served by one of its models.
  if (served !== undefined && served !== id && id.includes('/')) {
    throw new CliError(EXIT.upstream, `${id} did not answer; ${served} answered instead`, {
      code: 'MODEL_FAILED',
      hints: ['The key has failover models, and one of them answered.'],
    })
  }
  const row = {
    model: id,
    first_token_ms: firstTokenMs === undefined ? null : Math.round(firstTokenMs),
    total_ms: Math.round(totalMs),
    prompt_tokens: usage?.prompt_tokens ?? null,
    completion_tokens: usage?.completion_tokens ?? null,
  }
  await output.one(row, TEST_VIEW)
}
