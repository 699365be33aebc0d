// The documented errors of the routes in OpenAI's format.
import { OpenAiError } from '../../../../shared/wire/openai.ts'
import type { ResponseDoc } from '../../../platform/http/route.ts'

export const failure = (description: string): ResponseDoc => ({ description, schema: OpenAiError })

/** The errors of a request to a model. */
export const FAILURES: Record<number, ResponseDoc> = {
  400: failure('The request is invalid, or the provider rejected it'),
  401: failure('Key missing, invalid, revoked or expired'),
  403: failure('Model, policy, billing mode or `user_id` not allowed'),
  409: failure('The answer for this Idempotency-Key was too large to store'),
  413: failure('Body above 32 MB, or above `limits.body_size` of the configuration'),
  415: failure('Not application/json'),
  422: failure('Idempotency-Key reused with another body'),
  429: failure('Rate limit of the key, or of every model that was tried; points or budget used up'),
  500: failure('Unexpected failure'),
  502: failure('Every model that was tried failed'),
  503: failure('A required policy or shield is unavailable, or the gateway is overloaded or shutting down'),
}
