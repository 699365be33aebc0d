import type { z } from 'zod'
import type { ListModelsResponse } from '../../../shared/wire/discovery.ts'
import type { CliContext } from '../../context.ts'

export type ModelList = z.infer<typeof ListModelsResponse>
export type Model = ModelList['models'][number]

export const MODEL_VIEW = {
  columns: [{ path: 'id', title: 'MODEL', flexible: true }, { path: 'provider' }],
  idPath: 'id',
  none: 'This key may use no model.',
}

/** GET /models: what this key may use, of all providers or of one. */
export async function fetchModels(context: CliContext, provider: string | undefined) {
  const api = await context.api()
  const { body, raw } = await api.send<ModelList>({ method: 'GET', path: 'models', query: { provider } })
  return { models: body.models, raw }
}
