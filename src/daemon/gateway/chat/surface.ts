import type { ErrorShape } from '../../platform/http/route.ts'
import type { ClientStream, KeepAlive } from '../governed/client-stream.ts'
import type { Answer, Envelope } from './answer-contract.ts'

/** The wire format of one API. Validation, screening, billing and storage are the same for all surfaces. */
export type Surface = {
  /** The route in incidents and Idempotency-Keys. */
  path: string
  /** The format of its errors, the same as its route's. */
  errors: ErrorShape
  /** Set for a compatibility surface, where the operator may limit requests. */
  isCompatible?: true
  /** Renders an answer with `stream: false`. */
  whole(envelope: Envelope): Answer
  /** Renders an answer with `stream: true`. */
  streamed(envelope: Envelope, stream: ClientStream): Answer
  /** What a client with `stream: true` receives while the model is silent. */
  keepAlive: KeepAlive
}
