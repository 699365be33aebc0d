// The older API for completions, POST /v1/completions.
import { z } from 'zod'
import { FINISH_REASONS, GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { anObject, flag, optional, tokenLimit } from './common.ts'
import { answerCount, OpenAiError, OpenAiUsage } from './openai.ts'

export const COMPLETIONS_PATH = '/api/external/v1/completions'

const number = (name: string) => optional(z.number({ error: `${name} must be a number` }))
const unsupported = (error: string) => optional(z.never({ error }))

/** The body of POST /v1/completions. The prompt is sent to the model as the message of a user. */
export const CompletionRequest = z
  .looseObject(
    {
      ...SHARED_CHAT_FIELDS,
      prompt: z
        .union([z.string(), z.array(z.string())], {
          error: 'prompt must be a text, not tokens, because guards cannot inspect tokens',
        })
        .transform((prompt) => (typeof prompt === 'string' ? [prompt] : prompt))
        .refine((prompts) => prompts.length === 1, {
          error: 'prompt must be one text. Send one request for each prompt',
        })
        .refine(([prompt]) => prompt !== '', { error: 'prompt must not be empty' }),
      max_tokens: optional(tokenLimit('max_tokens')),
      stream_options: optional(
        z.object(
          { include_usage: optional(flag('stream_options.include_usage')) },
          { error: 'stream_options must be an object {include_usage}' },
        ),
      ),
      stop: optional(
        z.union([z.string(), z.array(z.string())], { error: 'stop must be a string or an array of strings' }),
      ),
      top_p: number('top_p'),
      frequency_penalty: number('frequency_penalty'),
      presence_penalty: number('presence_penalty'),
      seed: optional(z.int({ error: 'seed must be a whole number' })),
      user: optional(z.string({ error: 'user must be a string' })),
      n: answerCount.meta({ description: "The number of answers. Only providers of OpenAI's API have more than one" }),
      best_of: optional(z.literal(1, { error: 'best_of must be 1: the gateway shows every answer. Send n instead' })),
      echo: optional(z.literal(false, { error: 'echo is not supported: join the prompt and the answer yourself' })),
      suffix: unsupported('suffix is not supported: models of the chat API cannot insert text'),
      logprobs: unsupported('logprobs is not supported here: send logprobs to /v1/chat/completions'),
    },
    anObject,
  )
  .meta({ id: 'CompletionRequest' })
export type CompletionRequest = z.infer<typeof CompletionRequest>

const Choice = z.object({
  text: z.string(),
  index: z.int(),
  logprobs: z.null(),
  finish_reason: z.enum(FINISH_REASONS).nullable().meta({ description: 'null until the end of a stream' }),
})

/** The 200 response of POST /v1/completions without `stream`. */
export const CompletionResponse = z
  .object({
    id: z.string().meta({ example: 'cmpl-6745f0c8a1b2c3d4e5f60718' }),
    object: z.literal('text_completion'),
    created: z.int(),
    model: z.string(),
    choices: z.array(Choice),
    usage: OpenAiUsage,
    gateway: GatewayExtension,
  })
  .meta({ id: 'CompletionResponse' })
export type CompletionResponse = z.infer<typeof CompletionResponse>

/** One `data:` line of a streamed completion. A complete stream ends with `data: [DONE]`. */
export const CompletionChunk = z
  .union([
    CompletionResponse.omit({ usage: true, gateway: true }).extend({
      usage: OpenAiUsage.nullable().optional(),
      gateway: GatewayExtension.optional().meta({ description: 'Present only on the first chunk' }),
    }),
    OpenAiError,
  ])
  .meta({ id: 'CompletionChunk' })
