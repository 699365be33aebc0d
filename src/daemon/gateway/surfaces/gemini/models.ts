import { GatewayError } from '../../../../shared/errors.ts'
import { PAGE_LIMIT } from '../../../../shared/spec-limits.ts'
import {
  GEMINI_MODEL_PATH,
  GEMINI_MODELS_PATH,
  GeminiModel,
  GeminiModels,
  GoogleError,
  ModelsQuery,
} from '../../../../shared/wire/gemini.ts'
import { type ResponseDoc, type Route, reply, route } from '../../../platform/http/route.ts'
import type { Catalogue } from '../../discovery/catalogue.ts'
import type { GovernedDeps } from '../../governed/deps.ts'

const SHOWN_MODEL_CHARS = 200

const failure = (description: string): ResponseDoc => ({ description, schema: GoogleError })

const REFUSALS: Record<number, ResponseDoc> = {
  400: failure('The path or a parameter is invalid'),
  401: failure('Key missing or invalid'),
  403: failure('The key is not allowed from this address'),
  429: failure('Rate limit of the key'),
}

/** The routes that list models in the form of Gemini's API. */
export function geminiModelRoutes({ names }: Pick<GovernedDeps, 'names'>, catalogue: Catalogue): Route[] {
  function toModel(id: string): GeminiModel {
    const embeds = names.resolve(id)[0]?.tiers[0]?.[0]?.provider.embed !== undefined
    return {
      name: `models/${id}`,
      version: '',
      displayName: id,
      supportedGenerationMethods: [
        'generateContent',
        'streamGenerateContent',
        'countTokens',
        ...(embeds ? ['embedContent', 'batchEmbedContents'] : []),
      ],
    }
  }
  return [
    route({
      method: 'GET',
      path: GEMINI_MODELS_PATH,
      access: 'key',
      errors: 'google',
      summary: "List the models that this key may use, in Gemini's format",
      tags: ['Gemini-compatible'],
      takesKeyInAddress: true,
      query: ModelsQuery,
      responses: { 200: { description: 'One page of the models', schema: GeminiModels }, ...REFUSALS },
      async handle({ caller, query: { pageSize = 0, pageToken = '0' } }) {
        const ids = (await catalogue.models(caller)).map(({ id }) => id)
        const from = Number(pageToken)
        const end = from + Math.min(pageSize || PAGE_LIMIT.max, PAGE_LIMIT.max)
        const models = ids.slice(from, end).map(toModel)
        return reply(200, {
          models,
          ...(end < ids.length && { nextPageToken: String(end) }),
        } satisfies GeminiModels)
      },
    }),
    route({
      method: 'GET',
      path: GEMINI_MODEL_PATH,
      takesRest: true,
      access: 'key',
      errors: 'google',
      summary: "Show a model that this key may use, in Gemini's format",
      tags: ['Gemini-compatible'],
      takesKeyInAddress: true,
      responses: {
        200: { description: 'The model', schema: GeminiModel },
        ...REFUSALS,
        404: failure('The model does not exist, or this key may not use it'),
      },
      async handle({ caller, params: { model = '' } }) {
        if (!(await catalogue.find(model, caller))) {
          const shown = model.slice(0, SHOWN_MODEL_CHARS)
          throw new GatewayError('MODEL_NOT_FOUND', `The model "${shown}" does not exist, or this key may not use it.`)
        }
        return reply(200, toModel(model))
      },
    }),
  ]
}
