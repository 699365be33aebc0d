import { Command } from 'commander'
import { findNearestName } from '../../../shared/nearest-name.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { fetchModels, MODEL_VIEW, type Model } from './models.ts'

export function toCommand(context: CliContext, run = showModel): Command {
  return new Command('show')
    .description('Show a model, if this key may use it.')
    .argument('<id>', 'PROVIDER/MODEL, as chat takes it')
    .action((id: string) => run(context, { id }))
}

/** Also finds the entry that stands for any model of a provider. Throws exit 3 for a model this key may not use. */
export async function showModel(context: CliContext, { id }: { id: string }): Promise<void> {
  const output = await context.output()
  const { models, raw } = await fetchModels(context, undefined)
  const model = models.find((each) => each.id === id) ?? findWildcard(models, id)
  if (model === undefined) throw unknownModel(models, id)
  if (model.id !== id) await context.note(`note: this key may use any model of '${model.provider}'`)
  await output.one(model, MODEL_VIEW, raw)
}

function findWildcard(models: Model[], id: string): Model | undefined {
  const at = id.indexOf('/')
  return at > 0 && at < id.length - 1 ? models.find((each) => each.id === `${id.slice(0, at)}/*`) : undefined
}

function unknownModel(models: Model[], id: string): CliError {
  const nearest = findNearestName(
    id,
    models.map((model) => model.id),
  )
  return new CliError(EXIT.notFound, `this key may use no model '${id}'`, {
    code: 'MODEL_NOT_FOUND',
    hints: [...(nearest === undefined ? [] : [`Did you mean '${nearest}'?`]), 'Which may it use?  aigw models list'],
  })
}
