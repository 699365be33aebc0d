import type { ErrorShape, RequestContext } from '../../platform/http/route.ts'
import type { Answer, Envelope } from './answer-contract.ts'

/** The wire format of one API. Validation, screening, billing and storage are the same for all surfaces. */
export type Surface = {
  /** The route in incidents and Idempotency-Keys. */
  path: string
  /** The format of its errors, the same as its route's. */
  errors: ErrorShape
  /** Set for a compatibility surface, where the operator may limit the tokens of an answer. */
  isCompatible?: true
  /** Renders an answer with `stream: false`. */
  whole(envelope: Envelope): Answer
  /** Renders an answer with `stream: true`. @param keep whether to keep the transcript for a replay */
  streamed(envelope: Envelope, context: RequestContext, keep: boolean): Answer
}
