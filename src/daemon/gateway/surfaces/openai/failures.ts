// The documented errors of the routes in OpenAI's format.
import { z } from 'zod'
import { FlatError } from '../../../../shared/wire/common.ts'
import { OpenAiError } from '../../../../shared/wire/openai.ts'
import type { ResponseDoc } from '../../../platform/http/route.ts'

export const failure = (description: string): ResponseDoc => ({ description, schema: OpenAiError })
export const refusal = (description: string): ResponseDoc => ({ description, schema: FlatError })

/** The errors of a request to a model. */
export const FAILURES: Record<number, ResponseDoc> = {
  400: failure('The request is invalid, or the provider rejected it'),
  401: refusal('Key missing, invalid, revoked or expired'),
  403: refusal('Model, policy, billing mode or `user_id` not allowed'),
  409: failure('The answer for this Idempotency-Key was too large to store'),
  413: failure('Body above 32 MB, or above `limits.body_size` of the configuration'),
  415: failure('Not application/json'),
  422: failure('Idempotency-Key reused with another body'),
  429: {
    description:
      'Rate limit of the key, or points or budget used up (flat); or rate limit of every model that was tried',
    schema: z.union([FlatError, OpenAiError]),
  },
  500: failure('Unexpected failure'),
  502: failure('Every model that was tried failed'),
  503: failure('A required policy or shield is unavailable, or the gateway is overloaded or shutting down'),
}
