import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { isoTime } from '../../../shared/time.ts'
import { AnthropicModel, AnthropicModels } from '../../../shared/wire/discovery.ts'
import { OPENAI_MODEL_PATH, OPENAI_MODELS_PATH, OpenAiModel, OpenAiModels } from '../../../shared/wire/openai.ts'
import { type ResponseDoc, type Route, reply, route } from '../../platform/http/route.ts'
import { failure } from '../surfaces/openai/failures.ts'
import type { Catalogue, ListedModel } from './catalogue.ts'

const REFUSALS: Record<number, ResponseDoc> = {
  401: failure('Key missing or invalid'),
  403: failure('The key is not allowed from this address'),
  429: failure('Rate limit of the key'),
}

const SHOWN_MODEL_CHARS = 200

/**
 * The lists of models of the OpenAI and Anthropic interfaces, which have the same path. Anthropic's clients send the
 * header `anthropic-version`.
 */
export function modelRoutes({ catalogue, startedMs }: { catalogue: Catalogue; startedMs: number }): Route[] {
  const toOpenAi = ({ id, owner, details }: ListedModel): OpenAiModel => ({
    id,
    object: 'model',
    created: Math.floor(startedMs / 1000),
    owned_by: owner,
    ...details,
  })
  const toAnthropic = ({ id, details }: ListedModel): AnthropicModel => ({
    type: 'model',
    id,
    display_name: id,
    created_at: isoTime(startedMs),
    ...(details.context_length !== undefined && { max_input_tokens: details.context_length }),
    ...(details.max_output_tokens !== undefined && { max_tokens: details.max_output_tokens }),
    ...details,
  })
  return [
    route({
      method: 'GET',
      path: OPENAI_MODELS_PATH,
      access: 'key',
      errors: 'openai',
      summary: "List the models that this key may use, in OpenAI's format, or in Anthropic's with anthropic-version",
      tags: ['OpenAI-compatible', 'Anthropic-compatible'],
      responses: {
        200: {
          description: 'Values that chat accepts as `model`',
          schema: z.union([OpenAiModels, AnthropicModels]),
        },
        ...REFUSALS,
      },
      async handle({ caller, request }) {
        const models = await catalogue.models(caller)
        if (!isAnthropic(request)) {
          return reply(200, { object: 'list', data: models.map(toOpenAi) } satisfies OpenAiModels)
        }
        const data = models.map(toAnthropic)
        const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null]
        return reply(200, { data, first_id, has_more: false, last_id } satisfies AnthropicModels)
      },
    }),
    route({
      method: 'GET',
      path: OPENAI_MODEL_PATH,
      takesRest: true,
      access: 'key',
      errors: 'openai',
      summary: "Show a model that this key may use, in OpenAI's format, or in Anthropic's with anthropic-version",
      tags: ['OpenAI-compatible', 'Anthropic-compatible'],
      responses: {
        200: {
          description: 'The model; chat accepts its id as `model`',
          schema: z.union([OpenAiModel, AnthropicModel]),
        },
        400: failure('The path cannot be decoded'),
        ...REFUSALS,
        404: failure('The model does not exist, or this key may not use it'),
      },
      async handle({ caller, request, params: { model = '' } }) {
        const found = await catalogue.find(model, caller)
        if (!found) {
          const shown = model.slice(0, SHOWN_MODEL_CHARS)
          throw new GatewayError('MODEL_NOT_FOUND', `The model "${shown}" does not exist, or this key may not use it.`)
        }
        return reply(200, isAnthropic(request) ? toAnthropic(found) : toOpenAi(found))
      },
    }),
  ]
}

const isAnthropic = ({ headers }: IncomingMessage): boolean => headers['anthropic-version'] !== undefined
