import { hash } from 'node:crypto'
import { GatewayError } from '../../../shared/errors.ts'
import { ENTITLEMENT_SECONDS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { CallBody, Entitle } from '../../models/provider.ts'

/**
 * The result of an entitlement: accepted, or the reason for its rejection. `unused`: no call was attempted.
 * `unchecked`: the look-up of the key is still running or has failed, so nothing was sent.
 */
export type EntitlementVerdict =
  | 'unused'
  | 'unchecked'
  | 'allowed'
  | 'expired'
  | 'model_mismatch'
  | 'body_mismatch'
  | 'replayed'
  | 'revoked'

/**
 * The permission for one call to one model, in the form that the receipt shows. All times are in seconds since 1970.
 */
export type Entitlement = {
  jti: string
  /** The id of the caller's API key. */
  sub: string
  iat: number
  exp: number
  /** `<provider>/<model>` */
  model: string
  policyHash: string
  /** SHA-256 of the exact request body, hex. */
  bodySha256: string
  verdict: EntitlementVerdict
}

/** The terms of the entitlement for one attempt. */
export type EntitlementTerms = {
  jti: string
  keyId: string
  modelId: string
  /** The model's name at the provider. */
  model: string
  policyHash: string
  /** False if the policy is in monitor mode. In this mode, a violation is recorded, but the call is still sent. */
  enforced: boolean
  /** Whether the key, user and tenant are still valid, and unchanged since the request began. */
  isAccepted(): boolean | Promise<boolean>
}

/**
 * Entitles one attempt to send exactly the bytes for which the entitlement was issued. The entitlement is valid for one
 * use, for the model in its terms, for ENTITLEMENT_SECONDS, and while the key is valid.
 * @param minted is called with each new entitlement; the entitlement's verdict changes when it is used
 */
export function entitle(terms: EntitlementTerms, clock: Clock, minted: (entitlement: Entitlement) => void): Entitle {
  return (model, body) => {
    const mintedMs = clock.now()
    const iat = Math.floor(mintedMs / 1000)
    const entitlement: Entitlement = {
      jti: terms.jti,
      sub: terms.keyId,
      iat,
      exp: iat + ENTITLEMENT_SECONDS,
      model: terms.modelId,
      policyHash: terms.policyHash,
      bodySha256: typeof body === 'string' ? hash('sha256', body, 'hex') : body.sha256,
      verdict: 'unused',
    }
    minted(entitlement)

    function use(sentModel: string, sent: CallBody): Promise<void> | undefined {
      const fault = faultOf(sentModel, sent)
      if (fault !== undefined) return decide(fault)
      const accepted = terms.isAccepted()
      if (!(accepted instanceof Promise)) return decide(accepted ? 'allowed' : 'revoked')
      // The verdict is set before the look-up, so that the entitlement cannot be used again during the look-up.
      entitlement.verdict = 'unchecked'
      return accepted.then((isGood) => decide(isGood ? 'allowed' : 'revoked'))
    }

    /** Returns the first failed check, in the documented order. */
    function faultOf(sentModel: string, sent: CallBody): EntitlementVerdict | undefined {
      if (clock.now() >= mintedMs + ENTITLEMENT_SECONDS * 1000) return 'expired'
      if (sentModel !== terms.model || model !== terms.model) return 'model_mismatch'
      // Comparing the strings is sufficient: the entitlement contains the hash of `body`, and equal strings have equal
      // hashes. A large body is compared by identity.
      if (sent !== body) return 'body_mismatch'
      return entitlement.verdict === 'unused' ? undefined : 'replayed'
    }

    function decide(verdict: EntitlementVerdict): undefined {
      entitlement.verdict = verdict
      if (verdict !== 'allowed' && terms.enforced) throw entitlementRefused(verdict)
    }

    return use
  }
}

const REASONS: Partial<Record<EntitlementVerdict, string>> = {
  expired: 'its entitlement expired before it was sent',
  model_mismatch: 'its entitlement is for another model',
  body_mismatch: 'its body differs from the one that the entitlement allows',
  replayed: 'its entitlement has already been used',
  revoked: 'its API key was revoked or has expired, or its user or tenant is inactive',
}

/** Returns the error for a request whose entitlement is refused. */
export const entitlementRefused = (verdict: EntitlementVerdict): GatewayError =>
  new GatewayError('ENTITLEMENT_REFUSED', `The request was not sent to the model: ${REASONS[verdict]}.`, {
    extra: { reason: verdict },
  })
