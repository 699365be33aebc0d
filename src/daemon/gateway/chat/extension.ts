import type { GatewayExtension } from '../../../shared/wire/chat.ts'
import type { Envelope } from './answer-contract.ts'

/** The metadata and changes that the compatibility surfaces show. */
export const toExtension = ({
  metadata,
  changed,
  dropped,
}: Pick<Envelope, 'metadata' | 'changed' | 'dropped'>): GatewayExtension => ({
  ...toShown(metadata),
  ...(changed.length > 0 && { changed: [...changed] }),
  ...(dropped.length > 0 && { dropped: [...dropped] }),
})

const toShown = ({
  served_model,
  requested_model,
  failover,
  billing_fallback,
  smltp_policy_used,
  smltp_policy_source,
  smltp_policy_hash,
  smltp_policy_baseline,
  prompt_shield_policy,
  withheld,
  smltp,
  cache,
}: Envelope['metadata']): GatewayExtension => ({
  served_model,
  requested_model,
  ...(failover && { failover }),
  ...(billing_fallback && { billing_fallback }),
  smltp_policy_used,
  smltp_policy_source,
  smltp_policy_hash,
  ...(smltp_policy_baseline && { smltp_policy_baseline }),
  prompt_shield_policy,
  ...(withheld && { withheld }),
  smltp_bundle_id: smltp.bundle_id,
  ...(cache && { cache }),
})
