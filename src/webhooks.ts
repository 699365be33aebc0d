import { SIGNATURE_TOLERANCE_SECONDS } from './shared/spec-limits.ts'
import { type SignatureVerdict, verify } from './shared/webhook-signature.ts'
import type { WebhookEvent } from './shared/wire/events.ts'

export type { EventData, EventType, WebhookEvent } from './shared/wire/events.ts'

/** Which check a delivery failed. */
export type WebhookFault =
  /** No secret was given to check with: a fault of the receiver. */
  | 'missing_secret'
  /** The header is absent or not of the form `t=…,v1=…`. */
  | 'malformed_header'
  /** The body is not what was signed, or was signed with another secret. */
  | 'signature_mismatch'
  /** The signature is right and its timestamp too far from now, in either direction. */
  | 'timestamp_outside_tolerance'
  /** The signature is right and the body is no event. */
  | 'invalid_event'

/** A delivery that must not be believed. `code` says which check it failed. */
export class WebhookVerificationError extends Error {
  override name = 'WebhookVerificationError'
  readonly code: WebhookFault

  constructor(code: WebhookFault, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

export type VerifyOptions = {
  /** How many seconds the timestamp may be away from `now`, in both directions. */
  toleranceSeconds?: number
  /** Unix seconds. */
  now?: number
}

/** A delivery that the gateway has sent. */
export type VerifiedWebhook = {
  /** Unix seconds: when it was signed. */
  readonly timestamp: number
  /** Negative when the sender's clock is ahead. */
  readonly ageSeconds: number
  /**
   * The body, parsed when it is asked for. A later gateway may send types that this union does not know, so a `switch` on
   * `type` needs a default.
   * @throws WebhookVerificationError `invalid_event`
   */
  readonly event: WebhookEvent
}

/**
 * Checks the `X-Service-Signature` of a delivery (spec: Webhook signing), in constant time. Any `v1` of any secret will do,
 * so that a secret can be rotated.
 * @param rawBody the bytes as they came; a body that was parsed and written again has another signature
 * @param header the value of `X-Service-Signature`
 * @param secrets the whole `whsec_…`, or several; what is not set is left out, and with nothing left nothing is believed
 * @throws WebhookVerificationError
 */
export function verifyWebhook(
  rawBody: string | Uint8Array,
  header: string | null | undefined,
  secrets: string | undefined | readonly (string | undefined)[],
  { toleranceSeconds = SIGNATURE_TOLERANCE_SECONDS, now = Math.floor(Date.now() / 1000) }: VerifyOptions = {},
): VerifiedWebhook {
  const given = [secrets]
    .flat()
    .filter((secret) => typeof secret === 'string')
    .filter((secret) => secret !== '')
  if (given.length === 0) throw new WebhookVerificationError('missing_secret', 'No signing secret was given.')
  const verdict = verify(rawBody, header, given, { toleranceSeconds, now })
  if (!verdict.valid) throw new WebhookVerificationError(verdict.reason, explain(verdict, toleranceSeconds))
  const { timestamp, ageSeconds } = verdict
  let event: WebhookEvent | undefined
  return {
    timestamp,
    ageSeconds,
    get event() {
      event ??= parseEvent(rawBody)
      return event
    },
  }
}

function explain(verdict: Exclude<SignatureVerdict, { valid: true }>, toleranceSeconds: number): string {
  switch (verdict.reason) {
    case 'malformed_header':
      return `The X-Service-Signature header cannot be used: ${verdict.message}.`
    case 'signature_mismatch':
      return 'The signature does not match: the body was changed on its way or parsed and written again, or the secret is another one.'
    case 'timestamp_outside_tolerance':
      return `The signature is right, but its timestamp is ${Math.abs(verdict.ageSeconds)} s ${
        verdict.ageSeconds < 0 ? 'ahead' : 'old'
      }; ${toleranceSeconds} s are tolerated.`
  }
}

function parseEvent(rawBody: string | Uint8Array): WebhookEvent {
  let value: unknown
  try {
    value = JSON.parse(
      typeof rawBody === 'string' ? rawBody : new TextDecoder('utf-8', { fatal: true }).decode(rawBody),
    )
  } catch (cause) {
    throw new WebhookVerificationError('invalid_event', 'The signature is right, but the body is not JSON.', { cause })
  }
  if (isEvent(value)) return value
  throw new WebhookVerificationError('invalid_event', 'The signature is right, but the body is no event.')
}

/** The envelope; who sent it is known, so its `data` is taken as it is. */
function isEvent(value: unknown): value is WebhookEvent {
  if (typeof value !== 'object' || value === null) return false
  const { id, type, created, data } = value as Partial<Record<keyof WebhookEvent, unknown>>
  const isEnvelope = typeof id === 'string' && typeof type === 'string' && Number.isSafeInteger(created)
  return isEnvelope && typeof data === 'object' && data !== null
}
