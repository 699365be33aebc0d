import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { fetchModels, MODEL_VIEW } from './models.ts'

export type ListModelsInput = { provider: string | undefined }

export function toCommand(context: CliContext, run = listModels): Command {
  return new Command('list')
    .description("List the models this key may use. 'NAME/*' stands for any model of that provider.")
    .option('--provider <name>', 'only those of this provider, the part before the slash')
    .action(({ provider }: { provider?: string }) => run(context, { provider }))
}

/** Prints them in the order of the gateway; none is an empty list, not a failure. */
export async function listModels(context: CliContext, { provider }: ListModelsInput): Promise<void> {
  const output = await context.output()
  const { models, raw } = await fetchModels(context, provider)
  await output.list(models, MODEL_VIEW, raw)
}
