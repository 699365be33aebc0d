import { SIGNATURE_TOLERANCE_SECONDS } from './shared/spec-limits.ts'
import { type SignatureVerdict, verify } from './shared/webhook-signature.ts'
import type { WebhookEvent } from './shared/wire/events.ts'

export type { EventData, EventType, WebhookEvent } from './shared/wire/events.ts'

/** The check that failed during the verification. */
export type WebhookFault =
  /** No secret was passed to `verifyWebhook`. The configuration of the receiver is wrong. */
  | 'missing_secret'
  /** The header is missing or does not have the form `t=…,v1=…`. */
  | 'malformed_header'
  /** The body was changed after signing, or was signed with a different secret. */
  | 'signature_mismatch'
  /** The signature is valid, but its timestamp is outside the tolerance, either too old or too far in the future. */
  | 'timestamp_outside_tolerance'
  /** The signature is valid, but the body is not an event. */
  | 'invalid_event'

/** A delivery failed verification and must not be processed. `code` names the failed check. */
export class WebhookVerificationError extends Error {
  override name = 'WebhookVerificationError'
  readonly code: WebhookFault

  constructor(code: WebhookFault, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

export type VerifyOptions = {
  /** Maximum difference between the timestamp and `now` in seconds, in both directions. */
  toleranceSeconds?: number
  /** Unix seconds. */
  now?: number
}

/** A delivery from the gateway that passed verification. */
export type VerifiedWebhook = {
  /** Time of the signature in Unix seconds. */
  readonly timestamp: number
  /** The value is negative if the sender's clock is ahead of the receiver's clock. */
  readonly ageSeconds: number
  /**
   * The body, parsed on first access. Later gateway versions may send types that this union does not contain, so a
   * `switch` on `type` needs a `default` case.
   * @throws WebhookVerificationError `invalid_event`
   */
  readonly event: WebhookEvent
}

/**
 * Verifies the `X-Service-Signature` header of a delivery (spec: Webhook signing), in constant time. One match between
 * any `v1` and any secret suffices, so that secrets can be rotated.
 * @param rawBody the received bytes. If you parse and serialise the body again, its signature no longer matches.
 * @param header the value of `X-Service-Signature`. A list, as some frameworks pass for a repeated header, is malformed.
 * @param secrets one or more whole secrets, `whsec_…`. Undefined and empty values are ignored.
 * @throws WebhookVerificationError `missing_secret` if no non-empty secret was passed, or the code of the failed check
 */
export function verifyWebhook(
  rawBody: string | Uint8Array,
  header: string | readonly string[] | null | undefined,
  secrets: string | undefined | readonly (string | undefined)[],
  { toleranceSeconds = SIGNATURE_TOLERANCE_SECONDS, now = Math.floor(Date.now() / 1000) }: VerifyOptions = {},
): VerifiedWebhook {
  const usable = [secrets]
    .flat()
    .filter((secret) => typeof secret === 'string')
    .filter((secret) => secret !== '')
  if (usable.length === 0)
    throw new WebhookVerificationError(
      'missing_secret',
      'No signing secret was passed. Pass the signing secret of the endpoint.',
    )
  if (header !== null && header !== undefined && typeof header !== 'string')
    throw new WebhookVerificationError(
      'malformed_header',
      'The X-Service-Signature header is malformed: it must be one text. Pass the value of a single header.',
    )
  const verdict = verify(rawBody, header, usable, { toleranceSeconds, now })
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
      return `The X-Service-Signature header is malformed: ${verdict.message}.`
    case 'signature_mismatch':
      return 'The signature does not match. Pass the unparsed body bytes and the current secret of the endpoint.'
    case 'timestamp_outside_tolerance':
      return `The signature is valid, but its timestamp is ${Math.abs(verdict.ageSeconds)} s ${
        verdict.ageSeconds < 0 ? 'ahead' : 'old'
      }. The tolerance is ${toleranceSeconds} s.`
  }
}

function parseEvent(rawBody: string | Uint8Array): WebhookEvent {
  let value: unknown
  try {
    value = JSON.parse(
      typeof rawBody === 'string' ? rawBody : new TextDecoder('utf-8', { fatal: true }).decode(rawBody),
    )
  } catch (cause) {
    throw new WebhookVerificationError('invalid_event', 'The signature is valid, but the body is not JSON.', { cause })
  }
  if (isEvent(value)) return value
  throw new WebhookVerificationError('invalid_event', 'The signature is valid, but the body is not an event.')
}

/**
 * Checks only the envelope. `data` is not validated, because the signature proves that the event comes from the
 * gateway.
 */
function isEvent(value: unknown): value is WebhookEvent {
  if (typeof value !== 'object' || value === null) return false
  const { id, type, created, data } = value as Partial<Record<keyof WebhookEvent, unknown>>
  const isEnvelope = typeof id === 'string' && typeof type === 'string' && Number.isSafeInteger(created)
  return isEnvelope && typeof data === 'object' && data !== null
}
