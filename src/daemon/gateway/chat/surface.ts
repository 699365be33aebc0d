import type { ErrorShape, RequestContext } from '../../platform/http/route.ts'
import type { RequestFacts } from '../../records/evidence/request-entry.ts'
import type { Answer, Envelope } from './answer-contract.ts'

/** How one kind of client is spoken to. What is asked, checked, billed and kept is the same for all of them. */
export type Surface = {
  /** What bills and Idempotency-Keys know the route as. */
  path: string
  /** What evidence calls a request by it. */
  operation: RequestFacts['operation']
  /** How it words what it refuses; the same as its route's. */
  errors: ErrorShape
  /** A compatibility surface: the operator may limit the tokens of an answer (named-endpoints §26). */
  isCompatible?: true
  /** `stream: false`. */
  whole(envelope: Envelope): Answer
  /** `stream: true`. @param keep whether the answer may be asked for again, so that its transcript is needed. */
  streamed(envelope: Envelope, context: RequestContext, keep: boolean): Answer
}
