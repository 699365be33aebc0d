import { hash } from 'node:crypto'
import { GatewayError } from '../../../shared/errors.ts'
import { ENTITLEMENT_SECONDS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { Entitle } from '../../models/provider.ts'

/**
 * What became of an entitlement: why it was refused, or that the call was let go. Nothing was sent when it is `unused`, or
 * `unchecked`: used, but nobody could say whether the key is good.
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

/** The right of one call of one model, as the receipt shows it. Times in seconds since 1970. */
export type Entitlement = {
  jti: string
  /** The id of the key for which the call is made. */
  sub: string
  iat: number
  exp: number
  /** `<provider>/<model>` */
  model: string
  policyHash: string
  /** SHA-256 of the exact bytes of the call, hex. */
  bodySha256: string
  verdict: EntitlementVerdict
}

/** What one attempt is entitled to. */
export type EntitlementTerms = {
  jti: string
  keyId: string
  modelId: string
  /** The provider's own name of that model. */
  model: string
  policyHash: string
  /** False where the policy only watches: then what would be refused is recorded and sent. */
  enforced: boolean
  /** Whether key, user and tenant are still what they were when the request began. */
  isAccepted(): boolean | Promise<boolean>
}

/**
 * Entitles one attempt (named-endpoints §11): to one sending, of the very bytes that it is minted for, to the model of its
 * terms, within ENTITLEMENT_SECONDS, while the key is good.
 * @param minted is told of each entitlement, whose verdict changes when it is used
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
      bodySha256: hash('sha256', body, 'hex'),
      verdict: 'unused',
    }
    minted(entitlement)

    function use(sentModel: string, sent: string): Promise<void> | undefined {
      const fault = faultOf(sentModel, sent)
      if (fault !== undefined) return decide(fault)
      const accepted = terms.isAccepted()
      if (!(accepted instanceof Promise)) return decide(accepted ? 'allowed' : 'revoked')
      // Taken already: what is looked up must not leave time for another use.
      entitlement.verdict = 'unchecked'
      return accepted.then((isGood) => decide(isGood ? 'allowed' : 'revoked'))
    }

    /** In the order of named-endpoints §11. */
    function faultOf(sentModel: string, sent: string): EntitlementVerdict | undefined {
      if (clock.now() >= mintedMs + ENTITLEMENT_SECONDS * 1000) return 'expired'
      if (sentModel !== terms.model || model !== terms.model) return 'model_mismatch'
      // A string never changes: the same one has the hash that it was minted with.
      if (sent !== body) return 'body_mismatch'
      return entitlement.verdict === 'unused' ? undefined : 'replayed'
    }

    function decide(verdict: EntitlementVerdict): undefined {
      entitlement.verdict = verdict
      if (verdict !== 'allowed' && terms.enforced) throw refused(verdict)
    }

    return use
  }
}

const REASONS: Partial<Record<EntitlementVerdict, string>> = {
  expired: 'it was not sent in time',
  model_mismatch: 'it would have gone to another model',
  body_mismatch: 'it is not what was allowed',
  replayed: 'it would have been sent twice',
  revoked: 'its key has been revoked or has expired, or its user or tenant is not active any more',
}

const refused = (verdict: EntitlementVerdict): GatewayError =>
  new GatewayError('ENTITLEMENT_REFUSED', `The request was not sent to the model: ${REASONS[verdict]}.`, {
    extra: { reason: verdict },
  })
